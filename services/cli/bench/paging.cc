// KV memory reserved for the longest answer against blocks as they are needed.

#include <algorithm>

#include "common/base/status.h"
#include "common/engine/cpu_runner.h"
#include "services/cli/bench/benches.h"
#include "services/cli/bench/local_engine.h"

namespace baton::cli {
namespace {

constexpr uint32_t kBlock = 16;

void ShowExample(BenchReport* report) {
  constexpr uint32_t kReserved = 4096, kUsed = 200;
  const uint32_t blocks = KvLayout{.block_size = kBlock}.BlocksFor(kUsed), held = blocks * kBlock;
  const double reserved_waste = 100.0 * (kReserved - kUsed) / kReserved, paged_waste = 100.0 * (held - kUsed) / held;
  report->tables.push_back(
      {.title = absl::StrFormat("A sequence of %d tokens", kUsed),
       .columns = {{"memory"}, {"slots held", 0}, {"tokens", 0}, {"wasted, %", 0}},
       .rows = {{std::string("reserved for 4,096"), 1.0 * kReserved, 1.0 * kUsed, reserved_waste},
                {absl::StrFormat("%d blocks of %d", blocks, kBlock), 1.0 * held, 1.0 * kUsed, paged_waste}}});
  report->AddCheck("4,096 reserved and 200 used wastes 95%; 13 blocks of 16 waste 4%",
                   blocks == 13 && FormatCell(reserved_waste, 0) == "95" && FormatCell(paged_waste, 0) == "4");
}

}  // namespace

absl::StatusOr<BenchReport> RunPaging(BenchContext& context) {
  BenchReport report = context.StartReport("paging", "Reserved-maximum against paged KV memory");
  ShowExample(&report);

  // A pool that can reserve `reserved` sequences of the longest length holds many more of the drawn ones.
  const uint32_t longest = context.Pick(512u, 128u), reserved = context.Pick(4u, 2u);
  const size_t count = context.Pick(32, 6);
  BATON_ASSIGN_OR_RETURN(const auto weights, context.Weights());
  Draw draw(context.options().seed);
  std::vector<BenchRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    const auto part = [&](double mean) {
      return std::clamp(static_cast<uint32_t>(draw.Exponential(mean)), 2u, longest / 2);
    };
    requests.push_back({0, draw.Prompt(part(longest / 12.0), weights->config.vocab), part(longest / 16.0)});
  }
  ReportTable table{
      .title = absl::StrFormat("%d requests of drawn lengths (longest possible %d) in a pool of %d tokens", count,
                               longest, longest * reserved),
      .columns = {{"memory"},
                  {"most sequences together", 0},
                  {"share of the pool that holds tokens, %", 0},
                  {"tokens/s", 1},
                  {"seconds", 2}},
      .rows = {}};
  std::vector<double> rates[2], shares[2], seconds[2];
  uint32_t most[2] = {0, 0};
  std::vector<RequestTrace> reference;
  bool equal = true;
  const int rounds = context.options().repetitions;
  context.ExpectSteps(2 * (static_cast<uint64_t>(rounds) + 1));
  for (int round = -1; round < rounds; ++round) {
    for (const bool paged : {false, true}) {
      context.Step(paged ? "paged" : "reserved");
      LocalEngineOptions options{.threads = context.options().threads, .pool_tokens = longest * reserved};
      options.engine.prefix_cache = false;
      options.engine.max_itl = Duration(0);
      // What reserving whole lengths lets in: as many sequences as the pool has room for at full length.
      if (!paged) options.engine.max_batch = reserved;
      BATON_ASSIGN_OR_RETURN(const auto engine, LocalEngine::Create(weights, options));
      const std::vector<RequestTrace> traces = engine->Run(requests);
      BATON_RETURN_IF_ERROR(FirstError(traces));
      if (reference.empty()) reference = traces;
      equal = equal && SameTokens(reference, traces);
      if (round < 0) continue;
      const TraceSummary summary = Summarize(traces);
      rates[paged].push_back(summary.tokens_per_second);
      seconds[paged].push_back(summary.seconds);
      shares[paged].push_back(engine->mean_used_share());
      most[paged] = std::max(most[paged], engine->most_sequences());
    }
  }
  for (const bool paged : {false, true}) {
    table.rows.push_back({std::string(paged ? "paged" : "reserved"), static_cast<double>(most[paged]),
                          100 * Median(shares[paged]), Median(rates[paged]), Median(seconds[paged])});
  }
  report.tables.push_back(std::move(table));
  report.pictures.emplace_back(
      Timeline{.title = "Share of the pool that holds tokens, mean over the steps",
               .x_label = "% of the pool",
               .rows = {{"reserved", {{0, 100 * Median(shares[0]), FormatCell(100 * Median(shares[0]), 0) + "%", 1}}},
                        {"paged", {{0, 100 * Median(shares[1]), FormatCell(100 * Median(shares[1]), 0) + "%", 0}}}}});
  report.notes.push_back(
      absl::StrFormat("paged serves %.2f times the tokens a second of reserved", Median(rates[1]) / Median(rates[0])));
  report.AddCheck("the same tokens either way", equal);
  return report;
}

}  // namespace baton::cli
