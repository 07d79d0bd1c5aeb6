#include "services/cli/model_activity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "services/cli/format.h"
#include "services/cli/text_table.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

const v1::ModelActivity* Find(const std::optional<WorkerSnapshot>& snapshot, const std::string& model) {
  if (!snapshot) return nullptr;
  for (const v1::ModelActivity& activity : snapshot->workers.models()) {
    if (activity.model() == model) return &activity;
  }
  return nullptr;
}

// What a model's requests did between two looks.
struct Change {
  Change(const v1::ModelActivity& now, const v1::ModelActivity* before, double seconds)
      : first_token(now.time_to_first_token(), before ? &before->time_to_first_token() : nullptr),
        token_gap(now.inter_token_latency(), before ? &before->inter_token_latency() : nullptr),
        request(now.request_latency(), before ? &before->request_latency() : nullptr) {
    if (!before || seconds <= 0) return;
    const auto rate = [&](uint64_t from, uint64_t to) -> std::optional<double> {
      if (to < from) return std::nullopt;
      return static_cast<double>(to - from) / seconds;
    };
    ok = rate(before->requests_ok(), now.requests_ok());
    failed = rate(before->requests_failed(), now.requests_failed());
    prompt_tokens = rate(before->prompt_tokens(), now.prompt_tokens());
    generated_tokens = rate(before->generated_tokens(), now.generated_tokens());
  }

  HistogramChange first_token, token_gap, request;
  std::optional<double> ok, failed, prompt_tokens, generated_tokens;
};

std::string QuantilesText(const HistogramChange& change) {
  if (change.count == 0) return "-";
  std::string text;
  for (const double quantile : {0.5, 0.9, 0.99}) {
    text += (text.empty() ? "" : " / ") + FormatSeconds(*change.Quantile(quantile));
  }
  return text;
}

std::string RateText(const std::optional<double>& rate) { return rate ? FormatNumber(*rate, 1) : "-"; }

Json QuantilesJson(const HistogramChange& change) {
  Json json = {{"count", change.count}};
  if (change.count == 0) return json;
  json["p50"] = *change.Quantile(0.5);
  json["p90"] = *change.Quantile(0.9);
  json["p99"] = *change.Quantile(0.99);
  return json;
}

double SecondsBetween(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& since) {
  return since ? now.seconds - since->seconds : 0;
}

}  // namespace

HistogramChange::HistogramChange(const v1::Histogram& now, const v1::Histogram* before)
    : upper_bounds_(now.upper_bounds().begin(), now.upper_bounds().end()),
      counts_(now.counts().begin(), now.counts().end()) {
  counts_.resize(upper_bounds_.size() + 1);
  bool same = before && before->counts_size() == static_cast<int>(counts_.size());
  for (size_t i = 0; same && i < counts_.size(); ++i) same = before->counts(static_cast<int>(i)) <= counts_[i];
  for (size_t i = 0; same && i < counts_.size(); ++i) counts_[i] -= before->counts(static_cast<int>(i));
  count = std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

std::optional<double> HistogramChange::Quantile(double quantile) const {
  if (count == 0 || upper_bounds_.empty()) return std::nullopt;
  const double rank = quantile * static_cast<double>(count);
  double below = 0;
  for (size_t i = 0; i < upper_bounds_.size(); ++i) {
    const auto here = static_cast<double>(counts_[i]);
    if (here > 0 && below + here >= rank) {
      const double lower = i == 0 ? 0 : upper_bounds_[i - 1];
      return lower + (upper_bounds_[i] - lower) * std::max(0.0, rank - below) / here;
    }
    below += here;
  }
  return upper_bounds_.back();
}

std::vector<std::string> ModelLines(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& since) {
  TextTable table({{"model"},
                   {"TTFT p50 / p90 / p99"},
                   {"ITL p50 / p90 / p99"},
                   {"request p50 / p90 / p99"},
                   {"ok/s", true},
                   {"failed/s", true},
                   {"prompt/s", true},
                   {"gen/s", true}});
  for (const v1::ModelActivity& model : now.workers.models()) {
    const Change change(model, Find(since, model.model()), SecondsBetween(now, since));
    table.AddRow({model.model(), QuantilesText(change.first_token), QuantilesText(change.token_gap),
                  QuantilesText(change.request), RateText(change.ok), RateText(change.failed),
                  RateText(change.prompt_tokens), RateText(change.generated_tokens)});
  }
  return table.Lines();
}

Json ModelsJson(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& since) {
  Json models = Json::array();
  for (const v1::ModelActivity& model : now.workers.models()) {
    const Change change(model, Find(since, model.model()), SecondsBetween(now, since));
    Json json = {{"model", model.model()},
                 {"requests_ok", model.requests_ok()},
                 {"requests_failed", model.requests_failed()},
                 {"prompt_tokens", model.prompt_tokens()},
                 {"generated_tokens", model.generated_tokens()},
                 {"time_to_first_token_seconds", QuantilesJson(change.first_token)},
                 {"inter_token_latency_seconds", QuantilesJson(change.token_gap)},
                 {"request_latency_seconds", QuantilesJson(change.request)}};
    const auto add = [&](const char* name, const std::optional<double>& rate) {
      if (rate) json[name] = *rate;
    };
    add("requests_ok_per_second", change.ok);
    add("requests_failed_per_second", change.failed);
    add("prompt_tokens_per_second", change.prompt_tokens);
    add("generated_tokens_per_second", change.generated_tokens);
    models.push_back(std::move(json));
  }
  return models;
}

}  // namespace baton::cli
