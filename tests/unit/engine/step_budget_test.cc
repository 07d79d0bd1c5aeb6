// --max_itl_ms: streams keep their pace while prompts are read beside them, on a machine whose steps cost what a
// function says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/fakes/engine_harness.h"

namespace baton {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

// 10 ms a step, 1 ms a token.
Duration Cost(std::span<const StepSequence> batch) {
  Duration cost = milliseconds(10);
  for (const StepSequence& sequence : batch) cost += static_cast<int64_t>(sequence.tokens.size()) * milliseconds(1);
  return cost;
}

HarnessOptions Options(Duration max_itl) {
  HarnessOptions options;
  options.blocks = 256;
  options.scheduler.prefix_cache = false;
  options.scheduler.max_itl = max_itl;
  return options;
}

struct Stream {
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::vector<Duration> gaps;
  TimePoint last{};

  EngineRequest Start(EngineHarness* engine, uint64_t id, uint32_t prompt, uint32_t tokens) {
    sink->on_tokens = [this, engine] {
      const TimePoint now = engine->clock.Now();
      if (last != TimePoint{}) gaps.push_back(now - last);
      last = now;
    };
    EngineRequest request = MakeRequest(id, MakePrompt(prompt, static_cast<uint32_t>(id)), tokens, sink);
    EXPECT_TRUE(engine->Submit(request).ok());
    return request;
  }
};

// The stream's gaps while ten prompts of 300 tokens are read beside it.
std::vector<Duration> GapsBesidePrompts(Duration max_itl, std::vector<StepReport>* reports = nullptr) {
  EngineHarness engine(Options(max_itl));
  engine.runner.step_cost = Cost;
  Stream stream;
  const EngineRequest request = stream.Start(&engine, 1, 8, 300);
  for (int i = 0; i < 10; ++i) engine.Step();
  std::vector<Stream> prompts(10);
  std::vector<EngineRequest> requests;
  for (Stream& prompt : prompts) requests.push_back(prompt.Start(&engine, 2 + requests.size(), 300, 2));
  EXPECT_TRUE(engine.RunUntilIdle());
  EXPECT_EQ(stream.sink->ids(), FakeModelTokens(request.sampling, 0, 97, request.prompt));
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(prompts[i].sink->ids(), FakeModelTokens(requests[i].sampling, 0, 97, requests[i].prompt));
  }
  if (reports) *reports = engine.reports;
  return stream.gaps;
}

TEST(StepBudget, StreamsKeepTheirPaceWhilePromptsAreRead) {
  // Before the cost is known a step has at most 16 prompt tokens; the harness itself adds 1 ms between steps.
  EXPECT_THAT(GapsBesidePrompts(milliseconds(60)), Each(Le(milliseconds(61))));
}

TEST(StepBudget, WithoutATargetAStreamWaitsForWholeChunks) {
  const auto gaps = GapsBesidePrompts(Duration::zero());
  EXPECT_THAT(*std::max_element(gaps.begin(), gaps.end()), Ge(milliseconds(300)));
}

TEST(StepBudget, TheBudgetIsUsed) {
  std::vector<StepReport> reports;
  GapsBesidePrompts(milliseconds(60), &reports);
  uint32_t limited = 0, prompt_steps = 0, tokens = 0;
  for (const StepReport& report : reports) {
    if (report.streams == 0 || report.tokens == report.streams) continue;
    ++prompt_steps;
    tokens += report.tokens - report.streams;
    ASSERT_TRUE(report.prompt_budget.has_value());
    EXPECT_LE(report.tokens - report.streams, *report.prompt_budget);
    if (report.prompt_budget < 256u) ++limited;
  }
  EXPECT_GT(limited, 0u);
  EXPECT_GT(tokens / prompt_steps, 35u);  // 48 would fit exactly
}

TEST(StepBudget, PredictionsMeetWhatStepsTake) {
  std::vector<StepReport> reports;
  GapsBesidePrompts(milliseconds(60), &reports);
  for (size_t i = reports.size() / 2; i < reports.size(); ++i) {
    EXPECT_NEAR(Seconds(reports[i].predicted), Seconds(reports[i].duration), 0.2 * Seconds(reports[i].duration));
  }
}

// A machine that is not linear: weights are read once a step, and few tokens hide behind that; sixteen streams join and
// leave.
TEST(StepBudget, SixteenStreamsKeepTheirPaceOnAMachineBoundByItsMemory) {
  constexpr Duration kTarget = milliseconds(250);
  EngineHarness engine(Options(kTarget));
  engine.runner.step_cost = [](std::span<const StepSequence> batch) {
    int64_t tokens = 0, attended = 0;
    for (const StepSequence& sequence : batch) {
      tokens += static_cast<int64_t>(sequence.tokens.size());
      attended += static_cast<int64_t>(sequence.tokens.size()) * sequence.position;
    }
    return std::max<Duration>(milliseconds(40), tokens * milliseconds(4)) + attended * microseconds(2);
  };
  std::vector<Stream> streams(16);
  std::vector<EngineRequest> requests;
  for (Stream& stream : streams) requests.push_back(stream.Start(&engine, 1 + requests.size(), 128, 64));
  ASSERT_TRUE(engine.RunUntilIdle());
  std::vector<Duration> gaps;
  for (size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(streams[i].sink->ids(), FakeModelTokens(requests[i].sampling, 0, 97, requests[i].prompt));
    gaps.insert(gaps.end(), streams[i].gaps.begin(), streams[i].gaps.end());
  }
  std::sort(gaps.begin(), gaps.end());
  EXPECT_EQ(gaps.size(), 16u * 63);
  EXPECT_LE(gaps[gaps.size() * 95 / 100], kTarget + milliseconds(1));  // the harness adds one between steps
  EXPECT_LE(gaps.back(), kTarget * 3 / 2);
}

TEST(StepBudget, PromptsGetOnBesideStreamsThatTakeAllTheTime) {
  EngineHarness engine(Options(milliseconds(5)));  // less than any step
  engine.runner.step_cost = Cost;
  Stream stream, prompt;
  stream.Start(&engine, 1, 8, 200);
  for (int i = 0; i < 5; ++i) engine.Step();
  prompt.Start(&engine, 2, 160, 1);
  uint32_t steps = 0;
  while (!prompt.sink->ended() && steps < 100) {
    engine.Step();
    ++steps;
    EXPECT_LE(engine.runner.batch_tokens.back(), 1 + kLeastPromptTokens);
  }
  EXPECT_EQ(steps, 160 / kLeastPromptTokens);
  EXPECT_FALSE(stream.sink->ended());
}

TEST(StepBudget, WithoutStreamsPromptsRunInFullChunks) {
  EngineHarness engine(Options(milliseconds(20)));
  engine.runner.step_cost = Cost;
  Stream prompt;
  prompt.Start(&engine, 1, 500, 1);
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_THAT(engine.runner.batch_tokens, testing::ElementsAre(256u, 244u));
}

TEST(StepBudget, APromptThatGetsNoTokensTakesNoBlocks) {
  EngineHarness engine(Options(milliseconds(5)));
  engine.runner.step_cost = Cost;
  Stream stream;
  stream.Start(&engine, 1, 8, 200);
  for (int i = 0; i < 5; ++i) engine.Step();
  std::vector<Stream> prompts(3);
  uint64_t id = 2;
  for (Stream& prompt : prompts) prompt.Start(&engine, id++, 160, 1);
  for (int i = 0; i < 4; ++i) engine.Step();
  EXPECT_LE(engine.pool.counts().owned, 1u + 10u);  // one prompt's
}

}  // namespace
}  // namespace baton
