#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"
#include "common/engine/batching_simulation.h"
#include "tests/fakes/engine_harness.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

//               A       B       C       D       E
const SimulatedRequest kExample[] = {{0, 3}, {0, 8}, {0, 5}, {2, 4}, {4, 3}};

// The steps as text, a row for each slot.
std::vector<std::string> Draw(const BatchingTimeline& timeline) {
  std::vector<std::string> rows(timeline.steps.front().size());
  for (const auto& step : timeline.steps) {
    for (size_t slot = 0; slot < rows.size(); ++slot) {
      rows[slot] += step[slot] == BatchingTimeline::kEmpty ? '.' : static_cast<char>('A' + step[slot]);
    }
  }
  return rows;
}

TEST(BatchingModes, StaticKeepsSlotsEmptyUntilTheLongestMemberIsDone) {
  const BatchingTimeline timeline = SimulateBatching(BatchingMode::kStatic, 3, 0, kExample);
  EXPECT_THAT(Draw(timeline), ElementsAre("AAA.....DDDD",  //
                                          "BBBBBBBBEEE.",  //
                                          "CCCCC......."));
  EXPECT_NEAR(timeline.used_share, 0.6389, 0.00005);
  EXPECT_DOUBLE_EQ(timeline.mean_wait, 2.0);
  EXPECT_DOUBLE_EQ(timeline.mean_latency, 6.6);
  EXPECT_EQ(timeline.slots_wasted, 13u);
  EXPECT_NEAR(timeline.tokens_per_step, 1.92, 0.005);
}

TEST(BatchingModes, ContinuousFillsASlotInTheStepAfterItWasLeft) {
  const BatchingTimeline timeline = SimulateBatching(BatchingMode::kContinuous, 3, 0, kExample);
  EXPECT_THAT(Draw(timeline), ElementsAre("AAADDDD.",  //
                                          "BBBBBBBB",  //
                                          "CCCCCEEE"));
  EXPECT_NEAR(timeline.used_share, 0.9583, 0.00005);
  EXPECT_DOUBLE_EQ(timeline.mean_wait, 0.4);
  EXPECT_DOUBLE_EQ(timeline.mean_latency, 5.0);
  EXPECT_EQ(timeline.slots_wasted, 1u);
  EXPECT_NEAR(timeline.tokens_per_step, 2.88, 0.005);
}

TEST(BatchingModes, DynamicWaitsForAFullBatchUpToTheTimeout) {
  const SimulatedRequest requests[] = {{0, 2}, {2, 2}, {3, 2}, {3, 2}, {6, 1}};
  // Full with its second; full at once from what had waited; then nine steps of waiting in vain.
  EXPECT_THAT(Draw(SimulateBatching(BatchingMode::kDynamic, 2, 9, requests)), ElementsAre("..AACC.........E",  //
                                                                                          "..BBDD.........."));
  // The first has waited long enough alone, as has the fourth, which the fifth cannot join.
  EXPECT_THAT(Draw(SimulateBatching(BatchingMode::kDynamic, 2, 1, requests)), ElementsAre(".AABBDDE",  //
                                                                                          "...CC..."));
}

TEST(BatchingModes, NamesAreThoseOfTheFlag) {
  for (const std::string& name : BatchingModeNames()) EXPECT_EQ(BatchingModeName(*ParseBatchingMode(name)), name);
  EXPECT_THAT(StatusMessage(ParseBatchingMode("eager").status()), HasSubstr("'eager'"));
}

class FixedBatches : public testing::TestWithParam<BatchingMode> {};

TEST_P(FixedBatches, NoneJoinsARunningBatchAndMembersGetTheTokensOfRunningAlone) {
  HarnessOptions options;
  options.scheduler.batching = GetParam();
  options.scheduler.max_batch = 3;
  options.scheduler.max_step_tokens = 8;  // the members' prompts take many steps
  EngineHarness engine(options);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<EngineRequest> requests;
  for (uint64_t id = 1; id <= 4; ++id) {
    sinks.push_back(std::make_shared<RecordingSink>());
    requests.push_back(MakeRequest(id, MakePrompt(20, static_cast<uint32_t>(id)),
                                   10 + 10 * static_cast<uint32_t>(id % 3), sinks.back()));
    ASSERT_TRUE(engine.Submit(requests.back()).ok());
  }
  while (!sinks[0]->ended() || !sinks[1]->ended() || !sinks[2]->ended()) {
    EXPECT_FALSE(sinks[3]->cached_tokens().has_value());
    ASSERT_TRUE(engine.Step());
  }
  ASSERT_TRUE(engine.RunUntilIdle());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sinks[i]->ids(), FakeModelTokens(requests[i].sampling, 0, 97, requests[i].prompt)) << i;
  }
}

// A pool of 12 blocks: two members outgrow it, and handoffs that arrive meanwhile hold blocks without running.
TEST_P(FixedBatches, MembersPreemptWhoWaitsForTheNextBatch) {
  HarnessOptions options;
  options.blocks = 12;
  options.scheduler.batching = GetParam();
  EngineHarness engine(options);
  const auto sinks = {std::make_shared<RecordingSink>(), std::make_shared<RecordingSink>(),
                      std::make_shared<RecordingSink>(std::map<uint32_t, uint32_t>{{0, 1}})};
  std::vector<EngineRequest> requests;
  for (const auto& sink : sinks) {
    requests.push_back(MakeRequest(requests.size() + 1, MakePrompt(16, 7), 96, sink));
  }
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine.Submit(requests[static_cast<size_t>(i)]).ok());
  ASSERT_TRUE(engine.Step());
  EngineRequest& handoff = requests[2];
  handoff.work = WorkKind::kDecode;
  handoff.priority = -5;  // goes before, but not into a running batch
  handoff.blocks = *engine.pool.Allocate(2);
  const auto whole = FakeModelTokens(handoff.sampling, 0, 97, handoff.prompt);
  handoff.choices[0].generated = {whole.front()};
  const StepSequence prompt{handoff.prompt, 0, handoff.blocks, false};
  std::span<float> no_logits;
  ASSERT_TRUE(engine.runner.Step({&prompt, 1}, {&no_logits, 1}).ok());
  ASSERT_TRUE(engine.Submit(handoff).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  size_t at = 0;
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->ended() && sink->status().ok());
    const auto expected = FakeModelTokens(requests[at].sampling, 0, 97, requests[at].prompt);
    EXPECT_EQ(sink->ids(), std::vector<TokenId>(expected.begin() + (at == 2), expected.end())) << at;
    ++at;
  }
  EXPECT_EQ(engine.pool.counts().owned, 0u);
}

INSTANTIATE_TEST_SUITE_P(Modes, FixedBatches, testing::Values(BatchingMode::kStatic, BatchingMode::kDynamic),
                         [](const auto& mode) { return std::string(BatchingModeName(mode.param)); });

}  // namespace
}  // namespace baton
