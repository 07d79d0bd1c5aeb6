// What running streams feel while a long prompt is read: whole, or in chunks beside them.

#include <algorithm>

#include "common/base/status.h"
#include "services/cli/bench/benches.h"
#include "services/cli/bench/local_engine.h"

namespace baton::cli {
namespace {

struct Mode {
  std::string name;
  bool chunked;
  uint32_t chunk_tokens;
  Duration max_itl;
};

}  // namespace

absl::StatusOr<BenchReport> RunChunked(BenchContext& context) {
  BenchReport report = context.StartReport("chunked", "Streams while a long prompt arrives: whole against chunked");
  const uint32_t streams = context.Pick(4u, 2u), tokens = context.Pick(96u, 24u), prompt = context.Pick(1024u, 96u);
  BATON_ASSIGN_OR_RETURN(const auto weights, context.Weights());
  Draw draw(context.options().seed);
  std::vector<BenchRequest> requests;
  for (uint32_t i = 0; i < streams; ++i) requests.push_back({0, draw.Prompt(16, weights->config.vocab), tokens});
  requests.push_back({context.Pick(0.5, 0.005), draw.Prompt(prompt, weights->config.vocab), 4});

  using std::chrono::milliseconds;
  const std::vector<Mode> modes = {{"whole", false, prompt, Duration(0)},
                                   {"chunks of 256", true, context.Pick(256u, 32u), Duration(0)},
                                   {"chunks of 64", true, context.Pick(64u, 8u), Duration(0)},
                                   {"gaps kept under 100 ms", true, 512, milliseconds(100)}};
  ReportTable table{.title = absl::StrFormat("%d streams of %d tokens, then a prompt of %d", streams, tokens, prompt),
                    .columns = {{"prompt is read"},
                                {"ITL P50, ms", 1},
                                {"ITL P99, ms", 1},
                                {"ITL max, ms", 1},
                                {"prompt's TTFT, ms", 0},
                                {"seconds", 2}},
                    .rows = {}};
  LineChart chart{.title = "Gaps of one stream (last round)", .x_label = "seconds", .y_label = "gap, ms", .series = {}};
  std::vector<RequestTrace> reference;
  bool equal = true;
  std::vector<std::vector<double>> p50(modes.size()), p99(modes.size()), most(modes.size()), first(modes.size()),
      seconds(modes.size());
  const int rounds = context.options().repetitions;
  context.ExpectSteps(modes.size() * (static_cast<uint64_t>(rounds) + 1));
  for (int round = -1; round < rounds; ++round) {
    for (size_t i = 0; i < modes.size(); ++i) {
      context.Step(modes[i].name);
      LocalEngineOptions options{.threads = context.options().threads,
                                 .pool_tokens = prompt + 64 + streams * (tokens + 64)};
      options.engine.prefix_cache = false;
      options.engine.chunked_prefill = modes[i].chunked;
      options.engine.chunk_tokens = modes[i].chunk_tokens;
      options.engine.max_step_tokens = std::max(prompt + streams, 512u);
      options.engine.max_itl = modes[i].max_itl;
      BATON_ASSIGN_OR_RETURN(const auto engine, LocalEngine::Create(weights, options));
      const std::vector<RequestTrace> traces = engine->Run(requests);
      BATON_RETURN_IF_ERROR(FirstError(traces));
      if (reference.empty()) reference = traces;
      equal = equal && SameTokens(reference, traces);
      if (round < 0) continue;
      const TraceSummary running = Summarize(std::span(traces).first(streams));
      const Distribution gaps = Describe(running.gaps);
      p50[i].push_back(gaps.p50);
      p99[i].push_back(gaps.p99);
      most[i].push_back(gaps.max);
      first[i].push_back(traces.back().time_to_first_token());
      seconds[i].push_back(Summarize(traces).seconds);
      if (round + 1 < rounds) continue;
      Series series{.name = modes[i].name};
      const std::vector<double>& times = traces.front().token_times;
      for (size_t t = 1; t < times.size(); ++t) series.points.emplace_back(times[t], 1e3 * (times[t] - times[t - 1]));
      chart.series.push_back(std::move(series));
    }
  }
  for (size_t i = 0; i < modes.size(); ++i) {
    table.rows.push_back({modes[i].name, 1e3 * Median(p50[i]), 1e3 * Median(p99[i]), 1e3 * Median(most[i]),
                          1e3 * Median(first[i]), Median(seconds[i])});
  }
  report.tables.push_back(std::move(table));
  report.pictures.emplace_back(std::move(chart));
  report.AddCheck("the same tokens however the prompt is read", equal);
  return report;
}

}  // namespace baton::cli
