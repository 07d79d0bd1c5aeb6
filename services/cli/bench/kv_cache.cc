// What the KV cache is worth: the same prompts with it and without.

#include "common/base/status.h"
#include "services/cli/bench/benches.h"
#include "services/cli/bench/local_engine.h"

namespace baton::cli {
namespace {

absl::StatusOr<std::unique_ptr<LocalEngine>> EngineWith(BenchContext& context, bool kv_cache, uint32_t tokens) {
  BATON_ASSIGN_OR_RETURN(const auto weights, context.Weights());
  LocalEngineOptions options{.threads = context.options().threads, .pool_tokens = tokens + 64};
  options.engine.kv_cache = kv_cache;
  options.engine.prefix_cache = false;
  options.engine.chunk_tokens = options.engine.max_step_tokens;
  options.engine.max_itl = Duration(0);
  return LocalEngine::Create(weights, options);
}

struct Times {
  std::vector<double> prefill, per_token, total;  // seconds

  void Add(const RequestTrace& trace) {
    prefill.push_back(trace.time_to_first_token());
    total.push_back(trace.end - trace.arrival);
    per_token.push_back((trace.token_times.back() - trace.token_times.front()) /
                        static_cast<double>(trace.token_times.size() - 1));
  }
};

absl::Status ByPromptLength(BenchContext& context, BenchReport* report) {
  const std::vector<uint32_t> lengths =
      context.Pick(std::vector<uint32_t>{64, 256, 512, 1024}, std::vector<uint32_t>{16, 32});
  const uint32_t tokens = context.Pick(16u, 4u);
  BATON_ASSIGN_OR_RETURN(const auto with, EngineWith(context, true, lengths.back() + tokens));
  BATON_ASSIGN_OR_RETURN(const auto without, EngineWith(context, false, lengths.back() + tokens));
  ReportTable table{.title = absl::StrFormat("%d new tokens, by length of the prompt", tokens),
                    .columns = {{"prompt", 0},
                                {"KV cache"},
                                {"prefill, ms", 1},
                                {"ms a token", 2},
                                {"tokens/s", 1},
                                {"total, s", 3},
                                {"speedup", 2}}};
  Series cached{.name = "with KV cache"}, uncached{.name = "without"};
  bool equal = true;
  const int rounds = context.options().repetitions;
  context.ExpectSteps(lengths.size() * 2 * (static_cast<uint64_t>(rounds) + 1));
  for (const uint32_t length : lengths) {
    const std::vector<TokenId> prompt = Draw(context.options().seed + length).Prompt(length, with->vocab());
    Times times[2];  // with, without
    for (int round = -1; round < rounds; ++round) {
      std::vector<RequestTrace> traces;
      for (LocalEngine* engine : {with.get(), without.get()}) {
        context.Step(absl::StrFormat("prompt of %d, %s KV cache", length, engine == with.get() ? "with" : "without"));
        traces.push_back(RunOne(*engine, prompt, tokens));
      }
      BATON_RETURN_IF_ERROR(FirstError(traces));
      equal = equal && traces[0].ids == traces[1].ids;
      if (round < 0) continue;
      for (int i : {0, 1}) times[i].Add(traces[static_cast<size_t>(i)]);
    }
    for (int i : {0, 1}) {
      const double per_token = Median(times[i].per_token), total = Median(times[i].total);
      table.rows.push_back({static_cast<double>(length), std::string(i == 0 ? "with" : "without"),
                            1e3 * Median(times[i].prefill), 1e3 * per_token, 1 / per_token, total,
                            i == 0 ? Median(times[1].total) / total : 1.0});
      (i == 0 ? cached : uncached).points.emplace_back(length, 1e3 * per_token);
    }
  }
  report->tables.push_back(std::move(table));
  report->pictures.emplace_back(LineChart{.title = "Time of a token by length of the prompt",
                                          .x_label = "prompt tokens",
                                          .y_label = "ms a token",
                                          .series = {cached, uncached},
                                          .log_x = true,
                                          .log_y = true});
  report->AddCheck("the same tokens with and without KV cache", equal);
  return absl::OkStatus();
}

// Medians over repetitions of the time of each token after the first.
absl::StatusOr<std::vector<double>> GapMedians(BenchContext& context, LocalEngine& engine,
                                               const std::vector<TokenId>& prompt, uint32_t tokens,
                                               std::vector<TokenId>* ids) {
  std::vector<std::vector<double>> gaps(tokens - 1);
  for (int round = -1; round < context.options().repetitions; ++round) {
    context.Step(absl::StrFormat("each of %d tokens", tokens));
    const RequestTrace trace = RunOne(engine, prompt, tokens);
    BATON_RETURN_IF_ERROR(trace.status);
    *ids = trace.ids;
    if (round < 0) continue;
    for (size_t i = 0; i < gaps.size(); ++i) gaps[i].push_back(trace.token_times[i + 1] - trace.token_times[i]);
  }
  std::vector<double> medians;
  for (const std::vector<double>& values : gaps) medians.push_back(Median(values));
  return medians;
}

absl::Status TokenByToken(BenchContext& context, BenchReport* report) {
  const uint32_t tokens = context.Pick(100u, 12u), prompt_tokens = context.Pick(16u, 8u);
  const std::vector<TokenId> prompt = Draw(context.options().seed).Prompt(prompt_tokens, 250);
  ReportTable table{.title = absl::StrFormat("Each of %d tokens after a prompt of %d", tokens, prompt_tokens),
                    .columns = {{"KV cache"}, {"first tenth, ms", 2}, {"last tenth, ms", 2}, {"last / first", 2}}};
  LineChart chart{
      .title = absl::StrFormat("Time of each of %d tokens", tokens), .x_label = "token", .y_label = "ms", .series = {}};
  std::vector<std::vector<TokenId>> ids(2);
  context.ExpectSteps(2 * (static_cast<uint64_t>(context.options().repetitions) + 1));
  for (const bool kv_cache : {true, false}) {
    BATON_ASSIGN_OR_RETURN(const auto engine, EngineWith(context, kv_cache, prompt_tokens + tokens));
    BATON_ASSIGN_OR_RETURN(const std::vector<double> gaps,
                           GapMedians(context, *engine, prompt, tokens, &ids[kv_cache]));
    const auto tenth = static_cast<ptrdiff_t>(std::max<size_t>(1, gaps.size() / 10));
    const double first = Median({gaps.begin(), gaps.begin() + tenth}), last = Median({gaps.end() - tenth, gaps.end()});
    table.rows.push_back({std::string(kv_cache ? "with" : "without"), 1e3 * first, 1e3 * last, last / first});
    Series series{.name = kv_cache ? "with KV cache" : "without"};
    for (size_t i = 0; i < gaps.size(); ++i) series.points.emplace_back(i + 2, 1e3 * gaps[i]);
    chart.series.push_back(std::move(series));
  }
  report->tables.push_back(std::move(table));
  report->pictures.emplace_back(std::move(chart));
  report->AddCheck("the same tokens one at a time", ids[0] == ids[1]);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BenchReport> RunKvCache(BenchContext& context) {
  BenchReport report = context.StartReport("kv-cache", "What the KV cache is worth");
  BATON_RETURN_IF_ERROR(ByPromptLength(context, &report));
  BATON_RETURN_IF_ERROR(TokenByToken(context, &report));
  return report;
}

}  // namespace baton::cli
