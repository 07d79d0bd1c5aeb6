#include "services/cli/report_text.h"

#include "nlohmann/json.hpp"
#include "services/cli/format.h"
#include "services/cli/text_table.h"

namespace baton::cli {
namespace {

// Quoted, with its blanks and newlines visible.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string RouteText(const v1::Route& route) {
  std::string text = route.prefill_worker().empty() ? "(none)" : route.prefill_worker();
  if (!route.decode_worker().empty() && route.decode_worker() != route.prefill_worker()) {
    text += " -> " + route.decode_worker();
  }
  if (!route.reason().empty()) text += " (" + route.reason() + ")";
  if (route.attempts() > 1) text += ", " + std::to_string(route.attempts()) + " attempts";
  return text;
}

std::string StagesText(const v1::Timings& timings) {
  std::string text;
  const auto add = [&](const char* name, double seconds) {
    if (seconds <= 0) return;
    if (!text.empty()) text += ", ";
    text += std::string(name) + " " + FormatSeconds(seconds);
  };
  add("tokenize", timings.tokenize_seconds());
  add("queue", timings.queue_seconds());
  add("pair", timings.pair_seconds());
  add("prefill queue", timings.prefill_queue_seconds());
  add("prefill", timings.prefill_seconds());
  add("first token", timings.first_token_seconds());
  add("transfer tail", timings.transfer_tail_seconds());
  add("decode queue", timings.decode_queue_seconds());
  add("decode", timings.decode_seconds());
  add("detokenize", timings.detokenize_seconds());
  add("finish", timings.finish_seconds());
  return text;
}

}  // namespace

std::string FinishReasonText(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    default:
      return "none";
  }
}

std::string ReportText(const v1::PromptReport& report, const ClientTimes& times) {
  const v1::Usage& usage = report.usage();
  const v1::Timings& timings = report.timings();
  const v1::Route& route = report.route();
  FactList facts;
  facts.Add("tokens", FormatCount(usage.prompt_tokens()) + " prompt (" + FormatCount(usage.cached_prompt_tokens()) +
                          " cached), " + FormatCount(usage.completion_tokens()) + " generated");
  std::string first;
  if (times.time_to_first_token) first = FormatSeconds(*times.time_to_first_token) + " at the client, ";
  facts.Add("TTFT", first + FormatSeconds(timings.time_to_first_token_seconds()) + " at the router");
  if (times.gaps) {
    facts.Add("ITL", "mean " + FormatSeconds(times.gaps->mean) + ", p50 " + FormatSeconds(times.gaps->p50) + ", p99 " +
                         FormatSeconds(times.gaps->p99) + " at the client");
  }
  std::string total = FormatSeconds(times.total_seconds) + " at the client, " + FormatSeconds(timings.total_seconds()) +
                      " at the router";
  if (timings.time_per_output_token_seconds() > 0) {
    total += ", " + FormatNumber(1 / timings.time_per_output_token_seconds(), 1) + " tokens/s a choice";
  }
  facts.Add("total", total);
  facts.Add("stages", StagesText(timings));
  facts.Add("workers", RouteText(route));
  if (route.kv_bytes() == 0) {
    facts.Add("KV moved", "none");
  } else {
    std::string moved = FormatBytes(static_cast<double>(route.kv_bytes())) + " over " + route.kv_transport();
    if (timings.transfer_seconds() > 0) {
      moved += " in " + FormatSeconds(timings.transfer_seconds()) + " (" +
               FormatBytes(static_cast<double>(route.kv_bytes()) / timings.transfer_seconds()) + "/s)";
    }
    facts.Add("KV moved", moved);
  }
  return facts.Text();
}

std::string LogprobsText(const std::vector<v1::TokenLogprob>& logprobs) {
  TextTable table({{"id", true}, {"logprob", true}, {"token"}, {"most probable"}});
  for (const v1::TokenLogprob& entry : logprobs) {
    std::string alternatives;
    for (const v1::TopLogprob& top : entry.top()) {
      if (!alternatives.empty()) alternatives += "  ";
      alternatives += Quoted(top.token()) + " " + FormatNumber(top.logprob(), 3);
    }
    table.AddRow(
        {std::to_string(entry.token_id()), FormatNumber(entry.logprob(), 4), Quoted(entry.token()), alternatives});
  }
  std::string text;
  for (const std::string& line : table.Lines()) text += line + "\n";
  return text;
}

}  // namespace baton::cli
