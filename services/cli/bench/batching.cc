// Static, dynamic and continuous batching: the textbook example exactly, then the real engine.

#include <array>

#include "common/base/status.h"
#include "common/engine/batching_simulation.h"
#include "services/cli/bench/benches.h"
#include "services/cli/bench/local_engine.h"

namespace baton::cli {
namespace {

constexpr uint32_t kSlots = 3;
constexpr uint32_t kDynamicTimeout = 2;  // steps
//                                                       A       B       C       D       E
constexpr std::array<SimulatedRequest, 5> kExample = {{{0, 3}, {0, 8}, {0, 5}, {2, 4}, {4, 3}}};
constexpr std::array kModes = {BatchingMode::kStatic, BatchingMode::kDynamic, BatchingMode::kContinuous};

Timeline Picture(BatchingMode mode, const BatchingTimeline& run, size_t longest) {
  Timeline picture{.title = absl::StrFormat("%s batching: %d steps, %.2f%% of the slots used", BatchingModeName(mode),
                                            run.steps.size(), 100 * run.used_share),
                   .x_label = "step",
                   .rows = {},
                   .end = static_cast<double>(longest)};
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    Timeline::Row row{.name = "slot " + std::to_string(slot + 1)};
    for (size_t step = 0; step < run.steps.size(); ++step) {
      const int32_t request = run.steps[step][slot];
      if (request == BatchingTimeline::kEmpty) continue;
      row.bars.push_back({static_cast<double>(step), static_cast<double>(step + 1),
                          std::string(1, static_cast<char>('A' + request)), static_cast<size_t>(request)});
    }
    picture.rows.push_back(std::move(row));
  }
  return picture;
}

void ShowExample(BenchReport* report) {
  ReportTable table{.title = "Example: A 0/3, B 0/8, C 0/5, D 2/4, E 4/3 (arrival/tokens) on 3 slots",
                    .columns = {{"mode"},
                                {"steps", 0},
                                {"slots used, %", 2},
                                {"slots wasted", 0},
                                {"mean wait, steps", 1},
                                {"mean latency, steps", 1},
                                {"tokens a step", 2}}};
  const size_t longest = SimulateBatching(BatchingMode::kStatic, kSlots, 0, kExample).steps.size();
  for (const BatchingMode mode : kModes) {
    const BatchingTimeline run = SimulateBatching(mode, kSlots, kDynamicTimeout, kExample);
    table.rows.push_back({std::string(BatchingModeName(mode)), static_cast<double>(run.steps.size()),
                          100 * run.used_share, static_cast<double>(run.slots_wasted), run.mean_wait, run.mean_latency,
                          run.tokens_per_step});
    report->pictures.emplace_back(Picture(mode, run, longest));
  }
  const auto row_is = [&](size_t row, std::vector<std::string> expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      if (FormatCell(table.rows[row][i + 1], table.columns[i + 1].digits) != expected[i]) return false;
    }
    return true;
  };
  report->AddCheck(
      "static: 12 steps, 63.89% of the slots, 13 wasted, mean wait 2.0, mean latency 6.6, 1.92 tokens a step",
      row_is(0, {"12", "63.89", "13", "2.0", "6.6", "1.92"}));
  report->AddCheck(
      "continuous: 8 steps, 95.83% of the slots, 1 wasted, mean wait 0.4, mean latency 5.0, 2.88 tokens a step",
      row_is(2, {"8", "95.83", "1", "0.4", "5.0", "2.88"}));
  report->tables.push_back(std::move(table));
}

std::vector<BenchRequest> DrawRequests(const BenchContext& context, uint32_t vocab, double rate) {
  Draw draw(context.options().seed);
  const size_t count = context.Pick(32, 6);
  const std::vector<double> arrivals = PoissonArrivals(rate, count, &draw);
  std::vector<BenchRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    requests.push_back(
        {arrivals[i], draw.Prompt(draw.Between(8, context.Pick(64, 12)), vocab), draw.Between(2, context.Pick(64, 8))});
  }
  return requests;
}

absl::Status CompareModes(BenchContext& context, BenchReport* report) {
  const uint32_t slots = context.Pick(8u, 3u);
  const int rounds = context.options().repetitions;
  BATON_ASSIGN_OR_RETURN(const auto weights, context.Weights());
  const std::vector<BenchRequest> requests = DrawRequests(context, weights->config.vocab, context.Pick(20.0, 200.0));
  ReportTable table{
      .title = absl::StrFormat("Engine: %d requests of drawn lengths on %d slots", requests.size(), slots),
      .columns = {{"mode"},
                  {"seconds", 2},
                  {"tokens/s", 1},
                  {"TTFT mean, ms", 0},
                  {"latency mean, ms", 0},
                  {"of continuous' tokens/s, %", 0}}};
  std::array<std::vector<double>, 3> seconds, rates, first, latency;
  std::vector<RequestTrace> reference;
  bool equal = true;
  context.ExpectSteps(3 * (static_cast<uint64_t>(rounds) + 1));
  for (int round = -1; round < rounds; ++round) {
    for (size_t i = 0; i < kModes.size(); ++i) {
      context.Step(absl::StrFormat("%s batching", BatchingModeName(kModes[i])));
      LocalEngineOptions options{.threads = context.options().threads, .pool_tokens = slots * 256};
      options.engine.max_batch = slots;
      options.engine.batching = kModes[i];
      options.engine.prefix_cache = false;
      BATON_ASSIGN_OR_RETURN(const auto engine, LocalEngine::Create(weights, options));
      const std::vector<RequestTrace> traces = engine->Run(requests);
      BATON_RETURN_IF_ERROR(FirstError(traces));
      if (reference.empty()) reference = traces;
      equal = equal && SameTokens(reference, traces);
      if (round < 0) continue;
      const TraceSummary summary = Summarize(traces);
      seconds[i].push_back(summary.seconds);
      rates[i].push_back(summary.tokens_per_second);
      first[i].push_back(Mean(summary.first_token));
      latency[i].push_back(Mean(summary.latency));
    }
  }
  for (size_t i = 0; i < kModes.size(); ++i) {
    table.rows.push_back({std::string(BatchingModeName(kModes[i])), Median(seconds[i]), Median(rates[i]),
                          1e3 * Median(first[i]), 1e3 * Median(latency[i]),
                          100 * Median(rates[i]) / Median(rates.back())});
  }
  report->tables.push_back(std::move(table));
  report->AddCheck("the three modes generate the same tokens", equal);
  return absl::OkStatus();
}

absl::Status CompareTogether(BenchContext& context, BenchReport* report) {
  BATON_ASSIGN_OR_RETURN(const auto weights, context.Weights());
  const uint32_t tokens = context.Pick(32u, 4u), prompt = context.Pick(32u, 8u), most = context.Pick(32u, 4u);
  LocalEngineOptions options{.threads = context.options().threads, .pool_tokens = most * (prompt + tokens + 32)};
  options.engine.prefix_cache = false;
  BATON_ASSIGN_OR_RETURN(const auto engine, LocalEngine::Create(weights, options));
  ReportTable table{
      .title = absl::StrFormat("One by one against together: prompts of %d tokens, %d generated", prompt, tokens),
      .columns = {{"prompts", 0}, {"one by one, tokens/s", 1}, {"together, tokens/s", 1}, {"ratio", 2}}};
  Series alone{.name = "one by one"}, together{.name = "together"};
  bool equal = true;
  for (uint32_t count = 1; count <= most; count *= 2) {
    Draw draw(context.options().seed + count);
    std::vector<BenchRequest> requests;
    for (uint32_t i = 0; i < count; ++i) requests.push_back({0, draw.Prompt(prompt, engine->vocab()), tokens});
    std::vector<RequestTrace> single, batched;
    absl::Status status;
    context.ExpectSteps(2 * (static_cast<uint64_t>(context.options().repetitions) + 1));
    const std::vector<double> medians = AlternatingMedians(
        context.options().repetitions, {[&] {
                                          context.Step(absl::StrFormat("%d prompts one by one", count));
                                          single.clear();
                                          return SecondsOf([&] {
                                            for (const BenchRequest& request : requests) {
                                              single.push_back(engine->Run({&request, 1}).front());
                                            }
                                          });
                                        },
                                        [&] {
                                          context.Step(absl::StrFormat("%d prompts together", count));
                                          return SecondsOf([&] { batched = engine->Run(requests); });
                                        }});
    status.Update(FirstError(single));
    status.Update(FirstError(batched));
    BATON_RETURN_IF_ERROR(status);
    equal = equal && SameTokens(single, batched);
    const double all = static_cast<double>(count * tokens);
    table.rows.push_back({static_cast<double>(count), all / medians[0], all / medians[1], medians[0] / medians[1]});
    alone.points.emplace_back(count, all / medians[0]);
    together.points.emplace_back(count, all / medians[1]);
  }
  report->tables.push_back(std::move(table));
  report->pictures.emplace_back(LineChart{.title = "Prompts one by one and together",
                                          .x_label = "prompts",
                                          .y_label = "tokens a second, all together",
                                          .series = {together, alone},
                                          .log_x = true});
  report->AddCheck("prompts generate the same tokens one by one and together", equal);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BenchReport> RunBatching(BenchContext& context) {
  BenchReport report = context.StartReport("batching", "Static, dynamic and continuous batching");
  ShowExample(&report);
  BATON_RETURN_IF_ERROR(CompareModes(context, &report));
  BATON_RETURN_IF_ERROR(CompareTogether(context, &report));
  return report;
}

}  // namespace baton::cli
