// What the prefix cache is worth: a system prompt that all requests share, and a conversation that grows.

#include "common/base/status.h"
#include "services/cli/bench/benches.h"
#include "services/cli/bench/local_engine.h"

namespace baton::cli {
namespace {

absl::StatusOr<std::unique_ptr<LocalEngine>> EngineWith(BenchContext& context, bool prefix_cache, uint32_t tokens) {
  BATON_ASSIGN_OR_RETURN(const auto weights, context.Weights());
  LocalEngineOptions options{.threads = context.options().threads, .pool_tokens = tokens};
  options.engine.prefix_cache = prefix_cache;
  return LocalEngine::Create(weights, options);
}

struct Outcome {
  std::vector<double> first_token, cached_share, seconds;
  std::vector<RequestTrace> traces;
};

void Take(std::vector<RequestTrace> traces, double seconds, bool counts, Outcome* outcome) {
  if (counts) {
    double cached = 0, prompt = 0;
    for (const RequestTrace& trace : traces) {
      cached += trace.cached_tokens;
      prompt += trace.prompt_tokens;
    }
    outcome->first_token.push_back(Mean(Summarize(traces).first_token));
    outcome->cached_share.push_back(cached / prompt);
    outcome->seconds.push_back(seconds);
  }
  outcome->traces = std::move(traces);
}

// One after the other: later ones can find what earlier ones left.
std::vector<RequestTrace> RunInTurn(LocalEngine& engine, const std::vector<BenchRequest>& requests) {
  std::vector<RequestTrace> traces;
  for (const BenchRequest& request : requests) traces.push_back(engine.Run({&request, 1}).front());
  return traces;
}

// Each turn's prompt is the last one with its answer and a new question.
std::vector<RequestTrace> RunConversation(LocalEngine& engine, uint32_t turns, uint32_t question, uint32_t answer,
                                          uint64_t seed) {
  std::vector<RequestTrace> traces;
  Draw draw(seed);
  std::vector<TokenId> prompt;
  for (uint32_t turn = 0; turn < turns; ++turn) {
    const std::vector<TokenId> asked = draw.Prompt(question, engine.vocab());
    prompt.insert(prompt.end(), asked.begin(), asked.end());
    traces.push_back(RunOne(engine, prompt, answer));
    prompt.insert(prompt.end(), traces.back().ids.begin(), traces.back().ids.end());
  }
  return traces;
}

}  // namespace

absl::StatusOr<BenchReport> RunPrefix(BenchContext& context) {
  BenchReport report = context.StartReport("prefix", "What the prefix cache is worth");
  const uint32_t system = context.Pick(512u, 48u), question = context.Pick(32u, 8u), answer = context.Pick(16u, 4u);
  const uint32_t count = context.Pick(8u, 3u), turns = context.Pick(6u, 3u);
  const uint64_t seed = context.options().seed;
  const uint32_t tokens = system + (question + answer + 32) * std::max(count, turns) + 256;

  std::vector<BenchRequest> shared;
  Draw draw(seed);
  const std::vector<TokenId> beginning = draw.Prompt(system, 250);
  for (uint32_t i = 0; i < count; ++i) {
    BenchRequest request{0, beginning, answer};
    const std::vector<TokenId> asked = draw.Prompt(question, 250);
    request.prompt.insert(request.prompt.end(), asked.begin(), asked.end());
    shared.push_back(std::move(request));
  }
  Outcome by_system[2], by_turns[2];
  bool equal = true;
  const int rounds = context.options().repetitions;
  context.ExpectSteps(4 * (static_cast<uint64_t>(rounds) + 1));
  for (int round = -1; round < rounds; ++round) {
    for (const bool cache : {false, true}) {
      BATON_ASSIGN_OR_RETURN(const auto engine, EngineWith(context, cache, tokens));
      std::vector<RequestTrace> traces;
      context.Step(cache ? "shared system prompt, cached" : "shared system prompt, not cached");
      double seconds = SecondsOf([&] { traces = RunInTurn(*engine, shared); });
      BATON_RETURN_IF_ERROR(FirstError(traces));
      Take(std::move(traces), seconds, round >= 0, &by_system[cache]);
      engine->DropCache();
      context.Step(cache ? "conversation, cached" : "conversation, not cached");
      seconds = SecondsOf([&] { traces = RunConversation(*engine, turns, question, answer, seed); });
      BATON_RETURN_IF_ERROR(FirstError(traces));
      Take(std::move(traces), seconds, round >= 0, &by_turns[cache]);
    }
    equal = equal && SameTokens(by_system[0].traces, by_system[1].traces) &&
            SameTokens(by_turns[0].traces, by_turns[1].traces);
  }
  ReportTable table{
      .title = absl::StrFormat("%d requests after a system prompt of %d tokens; a conversation of %d turns", count,
                               system, turns),
      .columns = {{"workload"},
                  {"prefix cache"},
                  {"prompt tokens cached, %", 0},
                  {"TTFT mean, ms", 1},
                  {"seconds", 3},
                  {"speedup", 2}},
      .rows = {}};
  LineChart chart{
      .title = "Time to first token of each turn (last round)", .x_label = "turn", .y_label = "ms", .series = {}};
  for (const auto& [name, outcomes] : {std::pair("system prompt", by_system), std::pair("conversation", by_turns)}) {
    for (const bool cache : {false, true}) {
      const Outcome& outcome = outcomes[cache];
      table.rows.push_back({std::string(name), std::string(cache ? "on" : "off"), 100 * Median(outcome.cached_share),
                            1e3 * Median(outcome.first_token), Median(outcome.seconds),
                            Median(outcomes[0].seconds) / Median(outcome.seconds)});
      Series series{.name = absl::StrFormat("%s, cache %s", name, cache ? "on" : "off")};
      for (size_t i = 0; i < outcome.traces.size(); ++i) {
        series.points.emplace_back(i + 1, 1e3 * outcome.traces[i].time_to_first_token());
      }
      chart.series.push_back(std::move(series));
    }
  }
  report.tables.push_back(std::move(table));
  report.pictures.emplace_back(std::move(chart));
  report.AddCheck("the same tokens with and without prefix cache", equal);
  report.AddCheck("later requests find the shared beginning",
                  Median(by_system[1].cached_share) > 0.3 && Median(by_system[0].cached_share) == 0);
  return report;
}

}  // namespace baton::cli
