#include "services/cli/worker_table.h"

#include "nlohmann/json.hpp"
#include "services/cli/bar.h"
#include "services/cli/format.h"
#include "services/cli/model_activity.h"
#include "services/cli/text_table.h"

namespace baton::cli {
namespace {

std::string RoleText(v1::WorkerRole role) {
  return role == v1::WORKER_ROLE_PREFILL ? "prefill" : role == v1::WORKER_ROLE_DECODE ? "decode" : "?";
}

std::string StateText(v1::WorkerState state) {
  switch (state) {
    case v1::WORKER_STATE_UNREACHABLE:
      return "unreachable";
    case v1::WORKER_STATE_LOADING:
      return "loading";
    case v1::WORKER_STATE_READY:
      return "ready";
    case v1::WORKER_STATE_DRAINING:
      return "draining";
    default:
      return "?";
  }
}

std::string RateText(const std::optional<double>& rate) { return rate ? FormatNumber(*rate, 1) : "-"; }

std::string ShareText(const std::optional<double>& share) { return share ? FormatNumber(100 * *share, 0) + "%" : "-"; }

std::optional<double> HitRate(const v1::Worker& worker) {
  if (worker.prefix_queries() == 0) return std::nullopt;
  return static_cast<double>(worker.prefix_hits()) / static_cast<double>(worker.prefix_queries());
}

std::string KvText(const v1::KvBlocks& blocks) {
  const uint64_t used = uint64_t{blocks.owned()} + blocks.leased() + blocks.quarantined();
  const uint64_t total = used + blocks.cached() + blocks.free();
  if (total == 0) return "-";
  const std::string bar = ShareBar({{'#', blocks.owned()},
                                    {'+', blocks.leased()},
                                    {'!', blocks.quarantined()},
                                    {'=', blocks.cached()},
                                    {'.', blocks.free()}},
                                   20);
  return "[" + bar + "] " + FormatNumber(100.0 * static_cast<double>(used) / static_cast<double>(total), 0) + "%";
}

}  // namespace

WorkerRates RatesOf(const v1::Worker& worker, const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& before) {
  if (!before || now.seconds <= before->seconds) return {};
  for (const v1::Worker& old : before->workers.workers()) {
    if (old.address() != worker.address() || old.incarnation() != worker.incarnation()) continue;
    const auto rate = [&](uint64_t from, uint64_t to) -> std::optional<double> {
      if (to < from) return std::nullopt;
      return static_cast<double>(to - from) / (now.seconds - before->seconds);
    };
    const auto share = [](const std::optional<double>& achieved, double peak) -> std::optional<double> {
      if (!achieved || peak <= 0) return std::nullopt;
      return *achieved / peak;
    };
    return {rate(old.prompt_tokens(), worker.prompt_tokens()),
            rate(old.generated_tokens(), worker.generated_tokens()),
            rate(old.handoffs_committed(), worker.handoffs_committed()),
            rate(old.handoffs_failed(), worker.handoffs_failed()),
            rate(old.kv_bytes(), worker.kv_bytes()),
            share(rate(old.flops(), worker.flops()), worker.peak_flops_per_second()),
            share(rate(old.bytes_read(), worker.bytes_read()), worker.peak_bytes_per_second())};
  }
  return {};
}

std::vector<std::string> TopLines(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& before,
                                  const std::optional<WorkerSnapshot>& since) {
  const v1::ListWorkersResponse& response = now.workers;
  // What matters most comes first: a narrow window shows that much.
  TextTable table(
      {{"worker"},           {"role"},           {"state"},        {"running", true},       {"waiting", true},
       {"KV use"},           {"prompt/s", true}, {"gen/s", true},  {"handoffs/s", true},    {"failed/s", true},
       {"KV moved/s", true}, {"compute", true},  {"memory", true}, {"queued tokens", true}, {"hits", true},
       {"preempted", true},  {"owned", true},    {"leased", true}, {"quarantined", true},   {"cached", true},
       {"free", true},       {"model"},          {"incarnation"}});
  for (const v1::Worker& worker : response.workers()) {
    const WorkerRates rates = RatesOf(worker, now, before);
    const v1::KvBlocks& blocks = worker.kv_blocks();
    const std::optional<double> hits = HitRate(worker);
    table.AddRow({worker.address(),
                  RoleText(worker.role()),
                  StateText(worker.state()),
                  std::to_string(worker.running_sequences()) + "/" + std::to_string(worker.max_batch()),
                  std::to_string(worker.waiting_requests()),
                  KvText(blocks),
                  RateText(rates.prompt_tokens),
                  RateText(rates.generated_tokens),
                  RateText(rates.handoffs),
                  RateText(rates.handoffs_failed),
                  rates.kv_bytes ? FormatBytes(*rates.kv_bytes) : "-",
                  ShareText(rates.compute),
                  ShareText(rates.memory),
                  FormatCount(worker.waiting_prompt_tokens()),
                  ShareText(hits),
                  FormatCount(worker.preemptions()),
                  FormatCount(blocks.owned()),
                  FormatCount(blocks.leased()),
                  FormatCount(blocks.quarantined()),
                  FormatCount(blocks.cached()),
                  FormatCount(blocks.free()),
                  worker.model(),
                  worker.incarnation()});
  }
  const auto of = [](uint32_t limit) { return limit == 0 ? "" : " of " + FormatCount(limit); };
  std::vector<std::string> lines = {"router: " + FormatCount(response.router_running()) + " running" +
                                    of(response.router_max_running()) + ", " + FormatCount(response.router_waiting()) +
                                    " waiting" + of(response.router_max_waiting())};
  if (response.models_size() > 0) {
    for (std::string& line : ModelLines(now, since)) lines.push_back(std::move(line));
    lines.emplace_back(since ? "latencies: the last " + FormatNumber(now.seconds - since->seconds, 0) + " s"
                             : "latencies: since the router's start");
  }
  for (std::string& line : table.Lines()) lines.push_back(std::move(line));
  lines.emplace_back("KV blocks: # owned  + leased  ! quarantined  = cached  . free");
  return lines;
}

std::string TopJson(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& before,
                    const std::optional<WorkerSnapshot>& since) {
  using Json = nlohmann::ordered_json;
  Json workers = Json::array();
  for (const v1::Worker& worker : now.workers.workers()) {
    const WorkerRates rates = RatesOf(worker, now, before);
    const v1::KvBlocks& blocks = worker.kv_blocks();
    Json json = {{"address", worker.address()},
                 {"role", RoleText(worker.role())},
                 {"state", StateText(worker.state())},
                 {"model", worker.model()},
                 {"incarnation", worker.incarnation()},
                 {"version", worker.version()},
                 {"running_sequences", worker.running_sequences()},
                 {"max_batch", worker.max_batch()},
                 {"waiting_requests", worker.waiting_requests()},
                 {"waiting_prompt_tokens", worker.waiting_prompt_tokens()},
                 {"in_flight", worker.in_flight()},
                 {"block_bytes", worker.block_bytes()},
                 {"prompt_tokens", worker.prompt_tokens()},
                 {"generated_tokens", worker.generated_tokens()},
                 {"preemptions", worker.preemptions()},
                 {"prefix_queries", worker.prefix_queries()},
                 {"prefix_hits", worker.prefix_hits()},
                 {"handoffs_committed", worker.handoffs_committed()},
                 {"handoffs_failed", worker.handoffs_failed()},
                 {"kv_bytes", worker.kv_bytes()},
                 {"open_leases", worker.open_leases()},
                 {"flops", worker.flops()},
                 {"bytes_read", worker.bytes_read()},
                 {"peak_flops_per_second", worker.peak_flops_per_second()},
                 {"peak_bytes_per_second", worker.peak_bytes_per_second()},
                 {"layout_hash", worker.layout_hash()},
                 {"numerics_hash", worker.numerics_hash()},
                 {"allow_mixed_numerics", worker.allow_mixed_numerics()}};
    json["kv_blocks"] = {{"free", blocks.free()},
                         {"cached", blocks.cached()},
                         {"leased", blocks.leased()},
                         {"owned", blocks.owned()},
                         {"quarantined", blocks.quarantined()}};
    const auto add = [&](const char* name, const std::optional<double>& rate) {
      if (rate) json[name] = *rate;
    };
    add("prompt_tokens_per_second", rates.prompt_tokens);
    add("generated_tokens_per_second", rates.generated_tokens);
    add("handoffs_per_second", rates.handoffs);
    add("handoffs_failed_per_second", rates.handoffs_failed);
    add("kv_bytes_per_second", rates.kv_bytes);
    add("compute_share", rates.compute);
    add("memory_share", rates.memory);
    workers.push_back(std::move(json));
  }
  const Json json = {{"router_running", now.workers.router_running()},
                     {"router_waiting", now.workers.router_waiting()},
                     {"router_max_running", now.workers.router_max_running()},
                     {"router_max_waiting", now.workers.router_max_waiting()},
                     {"models", ModelsJson(now, since)},
                     {"workers", std::move(workers)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace baton::cli
