#include "common/engine/step_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "common/base/status.h"
#include "tests/fakes/engine_harness.h"

namespace baton {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;

constexpr uint32_t kVocab = 97;

std::shared_ptr<RecordingSink> NewSink() { return std::make_shared<RecordingSink>(); }

std::vector<TokenId> Alone(const EngineRequest& request, uint32_t choice = 0) {
  return FakeModelTokens(request.sampling, choice, kVocab, request.prompt, request.choices[choice].generated);
}

HarnessOptions Small(uint32_t blocks) {
  HarnessOptions options;
  options.blocks = blocks;
  return options;
}

TEST(StepLoop, GeneratesWhatTheModelGeneratesAlone) {
  EngineHarness engine;
  auto sink = NewSink();
  const EngineRequest request = MakeRequest(1, MakePrompt(40, 1), 30, sink);
  ASSERT_TRUE(engine.Submit(request).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_TRUE(sink->status().ok());
  EXPECT_EQ(sink->ids(), Alone(request));
  EXPECT_EQ(sink->finish(), FinishReason::kLength);
  EXPECT_EQ(sink->broken_contract(), "");
  EXPECT_EQ(engine.pool.counts().owned, 0u);
}

TEST(StepLoop, APositionIsComputedOnce) {
  EngineHarness engine;
  ASSERT_TRUE(engine.Submit(MakeRequest(1, MakePrompt(11, 1), 100, NewSink())).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_EQ(engine.runner.positions_run(), 110u);
  const EngineLoad load = engine.loop.load();
  EXPECT_EQ(load.prompt_tokens, 11u);
  EXPECT_EQ(load.generated_tokens, 100u);
  EXPECT_EQ(load.steps, 100u);
  EXPECT_EQ(load.flops, 220u);
  EXPECT_EQ(load.bytes, 880u);
}

TEST(StepLoop, ChoicesShareOneRunOfThePromptAndDiffer) {
  EngineHarness engine;
  auto sink = NewSink();
  const EngineRequest request = MakeRequest(1, MakePrompt(40, 1), 20, sink, 4);
  ASSERT_TRUE(engine.Submit(request).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_EQ(engine.runner.positions_run(), 40u + 4 * 19);
  for (uint32_t choice = 0; choice < 4; ++choice) EXPECT_EQ(sink->ids(choice), Alone(request, choice));
  EXPECT_NE(sink->ids(0), sink->ids(1));
}

TEST(StepLoop, SMP_02_MixedSamplingInOneBatch) {
  EngineHarness engine;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<EngineRequest> requests;
  for (uint64_t id = 1; id <= 5; ++id) {
    sinks.push_back(NewSink());
    requests.push_back(MakeRequest(id, MakePrompt(10, 1), 12, sinks.back()));
  }
  requests[0].sampling.temperature = 0;
  requests[1].sampling.top_k = 5;
  requests[2].sampling.top_k = 9999999;
  requests[3].sampling.temperature = 1e-9f;
  requests[4].sampling.top_p = 0;
  for (const EngineRequest& request : requests) ASSERT_TRUE(engine.Submit(request).ok());
  EngineRequest bad = MakeRequest(6, MakePrompt(10, 1), 12, NewSink());
  bad.sampling.logprobs = 2000000000;
  EXPECT_EQ(engine.Submit(bad).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(engine.RunUntilIdle());
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(sinks[i]->ids(), Alone(requests[i])) << i;
}

TEST(StepLoop, SMP_03_ARequestWithoutPossibleTokensEndsAndItsKvIsNeverFound) {
  for (const float temperature : {0.0f, 0.8f}) {
    EngineHarness engine;
    engine.runner.poison = 96;
    auto sick = NewSink(), healthy = NewSink();
    EngineRequest bad = MakeRequest(1, std::vector<TokenId>(40, 5), 12, sick);
    bad.prompt[20] = 96;
    bad.sampling.temperature = temperature;
    EngineRequest good = MakeRequest(2, std::vector<TokenId>(40, 5), 12, healthy);
    good.sampling.logit_bias = {{96, -100}};
    ASSERT_TRUE(engine.Submit(bad).ok());
    ASSERT_TRUE(engine.Submit(good).ok());
    ASSERT_TRUE(engine.RunUntilIdle());
    EXPECT_EQ(sick->status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(StatusMessage(sick->status()), HasSubstr("not finite"));
    EXPECT_THAT(sick->ids(), IsEmpty());
    EXPECT_EQ(healthy->ids(), Alone(good));
    EXPECT_EQ(engine.loop.load().impossible_rows, 1u);

    // The same prompt once more, now that the model is well: nothing of the poisoned run may be reused.
    engine.runner.poison = -1;
    auto again = NewSink();
    bad.id = 3;
    bad.sink = again;
    ASSERT_TRUE(engine.Submit(bad).ok());
    ASSERT_TRUE(engine.RunUntilIdle());
    EXPECT_EQ(again->cached_tokens(), 16u);  // the first block is the healthy request's
    EXPECT_EQ(again->ids(), Alone(bad));
  }
}

TEST(StepLoop, SMP_04_NeighboursAndOrderChangeNothing) {
  const auto run = [](uint32_t before, uint32_t after, bool twice, uint32_t blocks) {
    EngineHarness engine(Small(blocks));
    auto sink = NewSink(), second = NewSink();
    EngineRequest request = MakeRequest(1000, MakePrompt(20, 3), 16, sink);
    request.sampling.seed = 42;
    for (uint64_t id = 1; id <= before; ++id) {
      EXPECT_TRUE(engine.Submit(MakeRequest(id, MakePrompt(20, 3), 16, NewSink())).ok());
    }
    EXPECT_TRUE(engine.Submit(request).ok());
    if (twice) {
      EngineRequest copy = request;
      copy.id = 2000;
      copy.sink = second;
      EXPECT_TRUE(engine.Submit(copy).ok());
    }
    for (uint64_t id = 1; id <= after; ++id) {
      EXPECT_TRUE(engine.Submit(MakeRequest(100 + id, MakePrompt(20, 3), 16, NewSink())).ok());
    }
    EXPECT_TRUE(engine.RunUntilIdle());
    EXPECT_TRUE(!twice || second->ids() == sink->ids());
    EXPECT_EQ(sink->timings().preemptions > 0, blocks < 20);
    EXPECT_EQ(sink->ids(), Alone(request));
    return sink->ids();
  };
  const auto alone = run(0, 0, false, 64);
  EXPECT_EQ(run(3, 0, false, 64), alone);
  EXPECT_EQ(run(0, 3, false, 64), alone);
  EXPECT_EQ(run(2, 2, true, 64), alone);
  EXPECT_EQ(run(2, 0, false, 7), alone);  // preempted: three blocks each, and the third is wanted in the same step
}

TEST(StepLoop, SMP_06_PenaltiesSurviveAResume) {
  EngineHarness engine;
  EngineRequest request = MakeRequest(1, MakePrompt(20, 3), 30, nullptr);
  request.sampling.repetition_penalty = 1.7f;
  request.sampling.presence_penalty = 0.5f;
  request.sampling.frequency_penalty = 0.5f;
  const auto whole = Alone(request);
  for (const uint32_t cut : {1u, 7u, 12u, 29u}) {
    auto sink = std::make_shared<RecordingSink>(std::map<uint32_t, uint32_t>{{0, cut}});
    EngineRequest resumed = request;
    resumed.id = cut;
    resumed.sink = sink;
    resumed.choices[0].generated.assign(whole.begin(), whole.begin() + cut);
    ASSERT_TRUE(engine.Submit(resumed).ok());
    ASSERT_TRUE(engine.RunUntilIdle());
    EXPECT_EQ(sink->ids(), std::vector<TokenId>(whole.begin() + cut, whole.end()));
    EXPECT_EQ(sink->broken_contract(), "");
  }
}

TEST(StepLoop, TheBudgetAndTheBatchAreNeverExceeded) {
  HarnessOptions options;
  options.scheduler.max_batch = 5;
  options.scheduler.max_step_tokens = 24;
  options.scheduler.chunk_tokens = 10;
  EngineHarness engine(options);
  for (uint64_t id = 1; id <= 12; ++id) {
    ASSERT_TRUE(engine.Submit(MakeRequest(id, MakePrompt(50, static_cast<uint32_t>(id)), 10, NewSink(), 2)).ok());
  }
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_THAT(engine.runner.batch_sizes, Each(Le(5u)));
  EXPECT_THAT(engine.runner.batch_tokens, Each(Le(24u)));
  ASSERT_EQ(engine.reports.size(), engine.runner.batch_sizes.size());
  for (size_t i = 0; i < engine.reports.size(); ++i) {
    EXPECT_EQ(engine.reports[i].sequences, engine.runner.batch_sizes[i]);
    EXPECT_EQ(engine.reports[i].tokens, engine.runner.batch_tokens[i]);
  }
}

TEST(StepLoop, ALongPromptDoesNotStopRunningDecodes) {
  HarnessOptions options;
  options.scheduler.chunk_tokens = 16;
  EngineHarness engine(options);
  auto first = NewSink();
  ASSERT_TRUE(engine.Submit(MakeRequest(1, MakePrompt(8, 1), 40, first)).ok());
  engine.Step();
  ASSERT_TRUE(engine.Submit(MakeRequest(2, MakePrompt(200, 2), 4, NewSink())).ok());
  for (size_t tokens = 2; tokens < 14; ++tokens) {
    engine.Step();
    EXPECT_EQ(first->token_count(), tokens);
  }
}

TEST(StepLoop, PrefixHitsEndBeforeTheLastPromptTokenAndRespectSaltAndBypass) {
  for (const auto& [size, cached] :
       std::vector<std::pair<uint32_t, uint32_t>>{{15, 0}, {16, 0}, {17, 16}, {32, 16}, {33, 32}, {40, 32}}) {
    EngineHarness engine;
    const auto run = [&](uint64_t id, const std::string& salt, bool use_cache) {
      auto sink = NewSink();
      EngineRequest request = MakeRequest(id, MakePrompt(size, 1), 5, sink);
      request.cache_salt = salt;
      request.use_prefix_cache = use_cache;
      EXPECT_TRUE(engine.Submit(request).ok());
      EXPECT_TRUE(engine.RunUntilIdle());
      EXPECT_EQ(sink->ids(), Alone(request));
      EXPECT_EQ(sink->timings().cached_tokens, *sink->cached_tokens());
      return *sink->cached_tokens();
    };
    EXPECT_EQ(run(1, "", true), 0u);
    EXPECT_EQ(run(2, "", true), cached) << size;
    EXPECT_EQ(run(3, "tenant", true), 0u);
    EXPECT_EQ(run(4, "", false), 0u);
    EXPECT_EQ(engine.loop.load().prefix_hits, cached / 16);
    EXPECT_EQ(engine.loop.load().prefix_queries, 3 * ((size - 1) / 16));
  }
}

TEST(StepLoop, TheNextTurnOfAChatFindsTheAnswerInTheCache) {
  EngineHarness engine;
  auto first = NewSink(), second = NewSink();
  EngineRequest turn = MakeRequest(1, MakePrompt(20, 1), 30, first);
  ASSERT_TRUE(engine.Submit(turn).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  EngineRequest next = MakeRequest(2, turn.prompt, 5, second);
  const auto answer = first->ids();
  next.prompt.insert(next.prompt.end(), answer.begin(), answer.end());
  next.prompt.push_back(3);
  ASSERT_TRUE(engine.Submit(next).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_EQ(second->cached_tokens(), 48u);  // 49 of 50 positions had KV
  EXPECT_EQ(second->ids(), Alone(next));
}

TEST(StepLoop, WithoutTheCacheNothingIsFoundOrKept) {
  HarnessOptions options;
  options.scheduler.prefix_cache = false;
  EngineHarness engine(options);
  for (uint64_t id = 1; id <= 2; ++id) {
    auto sink = NewSink();
    ASSERT_TRUE(engine.Submit(MakeRequest(id, MakePrompt(40, 1), 5, sink)).ok());
    ASSERT_TRUE(engine.RunUntilIdle());
    EXPECT_EQ(sink->cached_tokens(), 0u);
    EXPECT_EQ(engine.pool.counts().free, engine.pool.size());
  }
}

TEST(StepLoop, LIM_03_AShortRequestBehindARefusedOneCompletes) {
  EngineHarness engine(Small(13));
  EXPECT_EQ(engine.Submit(MakeRequest(1, MakePrompt(14 * 16, 1), 1, NewSink())).code(),
            absl::StatusCode::kFailedPrecondition);
  auto exact = NewSink(), small = NewSink();
  ASSERT_TRUE(engine.Submit(MakeRequest(2, MakePrompt(13 * 16, 1), 1, exact)).ok());
  ASSERT_TRUE(engine.Submit(MakeRequest(3, MakePrompt(5, 1), 4, small)).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_TRUE(exact->ended() && exact->status().ok());
  EXPECT_TRUE(small->ended() && small->status().ok());
}

TEST(StepLoop, LIM_04_RequestsThatOutgrowThePoolFinishWithFewPreemptions) {
  HarnessOptions options = Small(12);  // one and a half requests of 8 blocks
  EngineHarness engine(options);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<EngineRequest> requests;
  for (uint64_t id = 1; id <= 4; ++id) {
    sinks.push_back(NewSink());
    requests.push_back(MakeRequest(id, MakePrompt(16, static_cast<uint32_t>(id)), 112, sinks.back()));
    requests.back().sampling.temperature = 0;
    ASSERT_TRUE(engine.Submit(requests.back()).ok());
  }
  ASSERT_TRUE(engine.RunUntilIdle());
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(sinks[i]->ids(), Alone(requests[i])) << i;
  EXPECT_EQ(sinks[0]->timings().preemptions, 0u);
  EXPECT_GT(engine.loop.load().preemptions, 0u);
  EXPECT_LE(engine.loop.load().preemptions, 8u);
}

TEST(StepLoop, RPC_01_CancelInQueueInPrefillAndInDecodeGivesBlocksBackAtTheNextStep) {
  HarnessOptions options;
  options.scheduler.chunk_tokens = 16;
  options.scheduler.max_batch = 2;
  EngineHarness engine(options);
  auto decoding = NewSink(), prefilling = NewSink(), queued = NewSink();
  ASSERT_TRUE(engine.Submit(MakeRequest(1, MakePrompt(10, 1), 500, decoding)).ok());
  ASSERT_TRUE(engine.Submit(MakeRequest(2, MakePrompt(100, 2), 500, prefilling)).ok());
  ASSERT_TRUE(engine.Submit(MakeRequest(3, MakePrompt(10, 3), 500, queued)).ok());
  for (int i = 0; i < 3; ++i) engine.Step();
  EXPECT_GT(decoding->token_count(), 0u);
  EXPECT_FALSE(prefilling->progress().empty());
  EXPECT_EQ(prefilling->token_count(), 0u);
  EXPECT_FALSE(queued->cached_tokens().has_value());
  for (uint64_t id = 1; id <= 3; ++id) engine.Cancel(id);
  EXPECT_FALSE(engine.Step());
  for (const auto& sink : {decoding, prefilling, queued}) {
    EXPECT_EQ(sink->status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(sink->broken_contract(), "");
  }
  EXPECT_EQ(engine.pool.counts().available(), engine.pool.size());
}

TEST(StepLoop, MET_03_CountsReturnToZeroWhenEverythingIsCancelledAtOnce) {
  EngineHarness engine;
  for (uint64_t id = 1; id <= 100; ++id) {
    ASSERT_TRUE(engine.Submit(MakeRequest(id, MakePrompt(20, static_cast<uint32_t>(id)), 9, NewSink())).ok());
  }
  engine.Step();
  EXPECT_GT(engine.loop.load().running_sequences, 0u);
  EXPECT_GT(engine.loop.load().waiting_requests, 0u);
  EXPECT_GT(engine.loop.load().waiting_prompt_tokens, 0u);
  for (uint64_t id = 1; id <= 100; ++id) engine.Cancel(id);
  engine.Step();
  EXPECT_EQ(engine.loop.load().running_sequences, 0u);
  EXPECT_EQ(engine.loop.load().waiting_requests, 0u);
  EXPECT_EQ(engine.loop.load().waiting_prompt_tokens, 0u);
  EXPECT_EQ(engine.pool.counts().owned, 0u);
}

TEST(StepLoop, ACancelledChoiceGetsNoFurtherTokenAndTheOthersGoOn) {
  EngineHarness engine;
  auto sink = NewSink();
  const EngineRequest request = MakeRequest(1, MakePrompt(20, 1), 20, sink, 3);
  ASSERT_TRUE(engine.Submit(request).ok());
  for (int i = 0; i < 4; ++i) engine.Step();
  engine.CancelChoice(1, 0);
  engine.CancelChoice(1, 63);  // none of its choices
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_EQ(sink->ids(0).size(), 4u);
  EXPECT_EQ(sink->ids(1), Alone(request, 1));
  EXPECT_EQ(sink->ids(2), Alone(request, 2));
  EXPECT_TRUE(sink->status().ok());
}

TEST(StepLoop, AChoiceCancelledBeforeTheForkDoesNotStopThePrompt) {
  HarnessOptions options;
  options.scheduler.chunk_tokens = 16;
  EngineHarness engine(options);
  auto sink = NewSink();
  const EngineRequest request = MakeRequest(1, MakePrompt(50, 1), 20, sink, 3);
  ASSERT_TRUE(engine.Submit(request).ok());
  engine.Step();
  engine.CancelChoice(1, 0);
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_THAT(sink->ids(0), IsEmpty());
  EXPECT_EQ(sink->ids(1), Alone(request, 1));
  EXPECT_EQ(sink->ids(2), Alone(request, 2));
  EXPECT_EQ(engine.pool.counts().owned, 0u);
}

TEST(StepLoop, WhenAllChoicesAreCancelledTheRequestEndsWell) {
  HarnessOptions options;
  options.scheduler.chunk_tokens = 16;
  EngineHarness engine(options);
  auto sink = NewSink();
  ASSERT_TRUE(engine.Submit(MakeRequest(1, MakePrompt(50, 1), 20, sink, 2)).ok());
  engine.Step();
  engine.CancelChoice(1, 0);
  engine.CancelChoice(1, 1);
  engine.Step();
  EXPECT_TRUE(sink->ended());
  EXPECT_TRUE(sink->status().ok());
  EXPECT_EQ(engine.pool.counts().owned, 0u);
}

TEST(StepLoop, AFailedStepEndsItsRequestsAndTheNextOnesRun) {
  EngineHarness engine;
  for (const bool throws : {false, true}) {
    auto sink = NewSink(), next = NewSink();
    ASSERT_TRUE(engine.Submit(MakeRequest(1, MakePrompt(20, 1), 20, sink, 2)).ok());
    engine.Step();
    engine.runner.before_step = [throws]() -> absl::Status {
      if (throws) throw std::runtime_error("out of luck");
      return Internal("out of luck");
    };
    engine.Step();
    engine.runner.before_step = nullptr;
    EXPECT_EQ(sink->status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(StatusMessage(sink->status()), HasSubstr("out of luck"));
    EXPECT_EQ(engine.pool.counts().owned, 0u);
    const EngineRequest request = MakeRequest(2, MakePrompt(20, 1), 20, next);
    ASSERT_TRUE(engine.Submit(request).ok());
    ASSERT_TRUE(engine.RunUntilIdle());
    EXPECT_EQ(next->ids(), Alone(request));
  }
}

TEST(StepLoop, ASinkThatThrowsEndsItsOwnRequestOnly) {
  EngineHarness engine;
  auto rude = NewSink(), polite = NewSink();
  rude->on_tokens = [] { throw 7; };
  const EngineRequest other = MakeRequest(2, MakePrompt(20, 1), 20, polite);
  ASSERT_TRUE(engine.Submit(MakeRequest(1, MakePrompt(20, 1), 20, rude)).ok());
  ASSERT_TRUE(engine.Submit(other).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_EQ(rude->status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(polite->ids(), Alone(other));
  EXPECT_EQ(engine.pool.counts().owned, 0u);
}

TEST(StepLoop, ASinkMayCallBackIntoTheInbox) {
  EngineHarness engine;
  auto sink = NewSink();
  sink->on_tokens = [&] { engine.Cancel(1); };
  ASSERT_TRUE(engine.Submit(MakeRequest(1, MakePrompt(20, 1), 20, sink)).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_EQ(sink->token_count(), 1u);
  EXPECT_EQ(sink->status().code(), absl::StatusCode::kCancelled);
}

TEST(StepLoop, TimingsAddUpToTheRequestsLife) {
  HarnessOptions options;
  options.scheduler.chunk_tokens = 16;
  options.scheduler.max_batch = 1;
  EngineHarness engine(options);  // its clock advances 1 ms before every step
  auto first = NewSink(), second = NewSink();
  ASSERT_TRUE(engine.Submit(MakeRequest(1, MakePrompt(48, 1), 5, first)).ok());
  ASSERT_TRUE(engine.Submit(MakeRequest(2, MakePrompt(48, 2), 5, second)).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  using std::chrono::milliseconds;
  EXPECT_EQ(first->timings().queue, milliseconds(1));
  EXPECT_EQ(first->timings().prefill, milliseconds(2));
  EXPECT_EQ(first->timings().decode, milliseconds(4));
  EXPECT_EQ(second->timings().queue, milliseconds(8));
  EXPECT_EQ(second->timings().prefill, milliseconds(2));
  EXPECT_EQ(second->timings().decode, milliseconds(4));
}

// Two choices that share a prompt and a third request, in a pool that just holds them.
TEST(StepLoop, WithoutKvCacheTheSameTokensCostTheWholeSequenceEachTime) {
  for (const uint32_t blocks : {64u, 9u}) {
    HarnessOptions options;
    options.blocks = blocks;
    options.scheduler.chunk_tokens = 16;
    std::map<bool, uint64_t> prompt_tokens;
    for (const bool kv_cache : {true, false}) {
      options.scheduler.kv_cache = kv_cache;
      EngineHarness engine(options);
      auto pair = NewSink(), single = NewSink();
      const auto requests = {MakeRequest(1, MakePrompt(20, 1), 20, pair, 2),
                             MakeRequest(2, MakePrompt(33, 2), 10, single)};
      for (const EngineRequest& request : requests) ASSERT_TRUE(engine.Submit(request).ok());
      ASSERT_TRUE(engine.RunUntilIdle());
      for (const uint32_t choice : {0u, 1u}) {
        EXPECT_EQ(pair->ids(choice), FakeModelTokens(requests.begin()->sampling, choice, 97, MakePrompt(20, 1)));
      }
      EXPECT_EQ(single->ids(), FakeModelTokens((requests.begin() + 1)->sampling, 0, 97, MakePrompt(33, 2)));
      EXPECT_EQ(engine.pool.counts().free + engine.pool.counts().cached, blocks);
      for (const StepReport& report : engine.reports) prompt_tokens[kv_cache] += report.tokens;
    }
    // Prompt once, then 21, 22, ... tokens a step for two choices and 34, 35, ... for the other.
    EXPECT_GE(prompt_tokens[false], 20u + 33u + 2 * 19 * 30 + 9 * 38);
    if (blocks == 64) {
      EXPECT_LT(prompt_tokens[true], 150u);
    }
  }
}

}  // namespace
}  // namespace baton
