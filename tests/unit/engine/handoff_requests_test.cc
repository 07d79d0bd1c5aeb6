// kPrefill on one engine, the KV copied as a transfer would, kDecode on another: the same tokens as on one engine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/base/block_hash.h"
#include "common/base/status.h"
#include "tests/fakes/engine_harness.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kVocab = 97;

std::shared_ptr<RecordingSink> NewSink() { return std::make_shared<RecordingSink>(); }

EngineRequest PrefillRequest(uint64_t id, uint32_t prompt_size, uint32_t choices, std::shared_ptr<EngineSink> sink,
                             uint32_t seed = 1) {
  EngineRequest request = MakeRequest(id, MakePrompt(prompt_size, seed), 12, std::move(sink), choices);
  request.work = WorkKind::kPrefill;
  return request;
}

// What the decode worker does before and after a transfer: pins its own hits, leases the rest, copies, commits.
EngineRequest HandOver(const EngineRequest& prefill, const RecordingSink& prefilled, EngineHarness* from,
                       EngineHarness* to, std::shared_ptr<EngineSink> sink) {
  const uint32_t prompt_blocks = static_cast<uint32_t>((prefill.prompt.size() + 15) / 16);
  const auto chain = HashBlockChain(prefill.prompt, 16, prefill.cache_salt);
  EngineRequest request = prefill;
  request.work = WorkKind::kDecode;
  request.sink = std::move(sink);
  request.blocks = to->pool.MatchPrefix(std::span(chain).first((prefill.prompt.size() - 1) / 16));
  const size_t hits = request.blocks.size();
  const auto leased =
      to->pool.Lease(prompt_blocks - static_cast<uint32_t>(hits) + static_cast<uint32_t>(prefill.choices.size()));
  EXPECT_TRUE(leased.ok());
  request.blocks.insert(request.blocks.end(), leased->begin(), leased->end());
  const auto source = prefilled.prompt_blocks();
  EXPECT_EQ(source.size(), prompt_blocks);
  for (size_t i = hits; i < prompt_blocks; ++i) {
    const auto bytes = from->runner.Slots(source[i]);
    std::copy(bytes.begin(), bytes.end(), to->runner.Slots(request.blocks[i]).begin());
  }
  to->pool.CommitLease(*leased);
  request.choices.clear();
  for (const ChoiceStart& choice : prefill.choices) {
    if (prefilled.finish(choice.index) == FinishReason::kNone) {
      request.choices.push_back({choice.index, prefilled.ids(choice.index)});
    } else {  // finished by its first token: its growth block is not needed
      to->pool.Release({&request.blocks.back(), 1});
      request.blocks.pop_back();
    }
  }
  return request;
}

std::map<uint32_t, uint32_t> FromSecond(uint32_t choices) {
  std::map<uint32_t, uint32_t> first;
  for (uint32_t i = 0; i < choices; ++i) first[i] = 1;
  return first;
}

TEST(HandoffRequests, PD_09_DisaggregatedEqualsLocalAtBlockBorders) {
  for (const uint32_t size : {1u, 15u, 16u, 17u, 31u, 32u, 33u, 100u}) {
    for (const uint32_t choices : {1u, 4u}) {
      HarnessOptions options;
      options.scheduler.chunk_tokens = 40;
      EngineHarness prefill(options), decode(options);
      for (uint64_t id = 1; id <= 3; ++id) {  // cold, then with prefix hits on both sides
        auto first = NewSink();
        auto rest = std::make_shared<RecordingSink>(FromSecond(choices));
        const EngineRequest request = PrefillRequest(id, size, choices, first);
        ASSERT_TRUE(prefill.Submit(request).ok());
        ASSERT_TRUE(prefill.RunUntilIdle());
        ASSERT_TRUE(first->status().ok());
        ASSERT_TRUE(decode.Submit(HandOver(request, *first, &prefill, &decode, rest)).ok());
        prefill.Release(id);
        prefill.Step();
        ASSERT_TRUE(decode.RunUntilIdle());
        for (uint32_t choice = 0; choice < choices; ++choice) {
          auto tokens = first->ids(choice);
          const auto more = rest->ids(choice);
          tokens.insert(tokens.end(), more.begin(), more.end());
          EXPECT_EQ(tokens, FakeModelTokens(request.sampling, choice, kVocab, request.prompt)) << size << " " << choice;
        }
        EXPECT_EQ(first->broken_contract() + rest->broken_contract(), "");
        EXPECT_EQ(prefill.pool.counts().owned, 0u);
        EXPECT_EQ(decode.pool.counts().owned, 0u);
        EXPECT_EQ(decode.runner.positions_run() % (choices * 11), 0u);  // decode ran no prompt token
      }
    }
  }
}

TEST(HandoffRequests, PD_09_MaxTokensOneAndAFirstTokenStopEndInPrefill) {
  EngineHarness prefill;
  auto one = NewSink(), stop = NewSink();
  EngineRequest request = PrefillRequest(1, 32, 1, one);
  request.sampling.max_tokens = 1;
  ASSERT_TRUE(prefill.Submit(request).ok());
  EngineRequest stopping = PrefillRequest(2, 32, 1, stop);
  stopping.sampling.eos_token_ids = {FakeModelTokens(stopping.sampling, 0, kVocab, stopping.prompt)[0]};
  ASSERT_TRUE(prefill.Submit(stopping).ok());
  ASSERT_TRUE(prefill.RunUntilIdle());
  EXPECT_EQ(one->finish(), FinishReason::kLength);
  EXPECT_EQ(stop->finish(), FinishReason::kStop);
  prefill.Release(1);
  prefill.Release(2);
  prefill.Step();
  EXPECT_EQ(prefill.pool.counts().owned, 0u);
}

TEST(HandoffRequests, SMP_08_PrefillAppliesMinTokensToTheFirstToken) {
  EngineHarness prefill;
  auto sink = NewSink();
  EngineRequest request = PrefillRequest(1, 32, 1, sink);
  request.sampling.temperature = 0;
  request.sampling.min_tokens = 1;
  request.sampling.eos_token_ids = {5};
  request.sampling.logit_bias = {{5, 100}};
  ASSERT_TRUE(prefill.Submit(request).ok());
  ASSERT_TRUE(prefill.RunUntilIdle());
  EXPECT_NE(sink->ids()[0], 5);
  EXPECT_EQ(sink->finish(), FinishReason::kNone);
}

TEST(HandoffRequests, ProgressComesAfterEveryChunkWithTheWholeBlockTable) {
  HarnessOptions options;
  options.scheduler.chunk_tokens = 40;
  EngineHarness prefill(options);
  auto cold = NewSink(), warm = NewSink();
  ASSERT_TRUE(prefill.Submit(PrefillRequest(1, 100, 2, cold)).ok());
  ASSERT_TRUE(prefill.RunUntilIdle());
  EXPECT_THAT(cold->progress(), ElementsAre(40, 80, 100));
  EXPECT_EQ(cold->prompt_blocks().size(), 7u);
  EXPECT_EQ(cold->token_count(), 2u);
  ASSERT_TRUE(prefill.Submit(PrefillRequest(2, 100, 1, warm)).ok());
  ASSERT_TRUE(prefill.RunUntilIdle());
  EXPECT_THAT(warm->progress(), ElementsAre(96, 100));  // what was cached can leave before the first chunk
  EXPECT_EQ(warm->cached_tokens(), 96u);
  const auto first = cold->prompt_blocks(), second = warm->prompt_blocks();
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 6, second.begin()));
  EXPECT_NE(first[6], second[6]);
}

TEST(HandoffRequests, AnEndedPrefillHoldsItsBlocksUntilRelease) {
  EngineHarness prefill;
  auto sink = NewSink();
  ASSERT_TRUE(prefill.Submit(PrefillRequest(1, 40, 2, sink)).ok());
  ASSERT_TRUE(prefill.RunUntilIdle());
  EXPECT_TRUE(sink->ended());
  EXPECT_EQ(prefill.pool.counts().owned, 3u);
  EXPECT_EQ(prefill.Submit(PrefillRequest(1, 40, 2, NewSink())).code(), absl::StatusCode::kInvalidArgument);
  prefill.Cancel(1);  // too late for anything
  prefill.Step();
  EXPECT_EQ(prefill.pool.counts().owned, 3u);
  prefill.Release(1);
  prefill.Step();
  EXPECT_EQ(prefill.pool.counts().owned, 0u);
  EXPECT_EQ(prefill.pool.counts().cached, 2u);
  EXPECT_TRUE(prefill.Submit(PrefillRequest(1, 40, 2, NewSink())).ok());
}

TEST(HandoffRequests, PD_03_ACancelledOrFailedPrefillHoldsWhatATransferMayRead) {
  for (const bool fails : {false, true}) {
    HarnessOptions options;
    options.scheduler.chunk_tokens = 16;
    EngineHarness prefill(options);
    auto sink = NewSink();
    ASSERT_TRUE(prefill.Submit(PrefillRequest(1, 40, 1, sink)).ok());
    prefill.Step();
    if (fails) {
      prefill.runner.before_step = [] { return Internal("broken"); };
    } else {
      prefill.Cancel(1);
    }
    prefill.Step();
    EXPECT_EQ(sink->status().code(), fails ? absl::StatusCode::kInternal : absl::StatusCode::kCancelled);
    EXPECT_EQ(prefill.pool.counts().owned, 3u);
    prefill.Release(1);
    prefill.Step();
    EXPECT_EQ(prefill.pool.counts().available(), prefill.pool.size());
  }
}

TEST(HandoffRequests, CancellingAllChoicesOfAPrefillHoldsItsBlocksToo) {
  HarnessOptions options;
  options.scheduler.chunk_tokens = 16;
  EngineHarness prefill(options);
  auto sink = NewSink();
  ASSERT_TRUE(prefill.Submit(PrefillRequest(1, 40, 2, sink)).ok());
  prefill.Step();
  prefill.CancelChoice(1, 0);
  prefill.CancelChoice(1, 1);
  prefill.Step();
  EXPECT_TRUE(sink->ended());
  EXPECT_EQ(prefill.pool.counts().owned, 3u);
  prefill.Release(1);
  prefill.Step();
  EXPECT_EQ(prefill.pool.counts().owned, 0u);
}

TEST(HandoffRequests, WhatWasNeverAnnouncedNeedsNoRelease) {
  EngineHarness prefill;
  auto queued = NewSink();
  ASSERT_TRUE(prefill.Submit(PrefillRequest(1, 40, 1, queued)).ok());
  prefill.Cancel(1);
  prefill.Step();
  EXPECT_TRUE(queued->ended());
  EXPECT_EQ(prefill.pool.counts().available(), prefill.pool.size());
  EXPECT_TRUE(prefill.Submit(PrefillRequest(1, 40, 1, NewSink())).ok());
}

TEST(HandoffRequests, AReleaseBeforeTheEndTakesEffectAtTheEnd) {
  HarnessOptions options;
  options.scheduler.chunk_tokens = 16;
  EngineHarness prefill(options);
  auto sink = NewSink();
  ASSERT_TRUE(prefill.Submit(PrefillRequest(1, 40, 1, sink)).ok());
  prefill.Step();
  prefill.Release(1);
  prefill.Step();
  EXPECT_EQ(prefill.pool.counts().owned, 3u);
  ASSERT_TRUE(prefill.RunUntilIdle());
  EXPECT_TRUE(sink->status().ok());
  EXPECT_EQ(prefill.pool.counts().owned, 0u);
}

TEST(HandoffRequests, PD_01_APoolForTwentyServesTwoHundredAbandonedPrefills) {
  HarnessOptions options;
  options.blocks = 60;
  EngineHarness prefill(options);
  for (uint64_t id = 1; id <= 200; ++id) {
    auto sink = NewSink();
    ASSERT_TRUE(prefill.Submit(PrefillRequest(id, 40, 1, sink, static_cast<uint32_t>(id))).ok());
    prefill.Step();
    ASSERT_TRUE(sink->ended()) << id;
    prefill.Cancel(id);
    prefill.Release(id);
  }
  prefill.Step();
  EXPECT_EQ(prefill.pool.counts().owned, 0u);
}

TEST(HandoffRequests, PrefillsThatWaitForReleasesRunOnceTheyCome) {
  HarnessOptions options;
  options.blocks = 8;
  options.scheduler.chunk_tokens = 16;
  EngineHarness prefill(options);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint64_t id = 1; id <= 5; ++id) {
    sinks.push_back(NewSink());
    ASSERT_TRUE(prefill.Submit(PrefillRequest(id, 16 * 5, 1, sinks.back(), static_cast<uint32_t>(id))).ok());
  }
  for (uint64_t id = 1; id <= 5; ++id) {
    ASSERT_TRUE(prefill.RunUntilIdle());
    EXPECT_TRUE(sinks[id - 1]->ended()) << id;
    EXPECT_TRUE(id == 5 || !sinks[id]->ended());
    prefill.Release(id);
  }
}

TEST(HandoffRequests, AnUrgentRequestThatGrowsNeverTakesTheBlocksOfARunningPrefill) {
  HarnessOptions options;
  options.blocks = 7;
  options.scheduler.chunk_tokens = 1;
  EngineHarness engine(options);
  auto prefilled = NewSink(), generated = NewSink();
  EngineRequest prefill = PrefillRequest(1, 16 * 5, 1, prefilled);
  prefill.priority = 9;
  ASSERT_TRUE(engine.Submit(prefill).ok());
  engine.Step();
  const EngineRequest urgent =
      MakeRequest(2, MakePrompt(16, 2), 40, generated);  // grows into two blocks, wants a third
  ASSERT_TRUE(engine.Submit(urgent).ok());
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_EQ(prefilled->timings().preemptions, 0u);
  EXPECT_EQ(prefilled->progress().size(), 80u);
  EXPECT_TRUE(prefilled->ended());
  EXPECT_EQ(generated->token_count(), 17u);
  engine.Release(1);
  ASSERT_TRUE(engine.RunUntilIdle());
  EXPECT_EQ(generated->ids(), FakeModelTokens(urgent.sampling, 0, kVocab, urgent.prompt));
  EXPECT_EQ(generated->timings().preemptions, 0u);
}

TEST(HandoffRequests, PromptBlocksOfAHandoffBecomeFindable) {
  EngineHarness prefill, decode;
  auto first = NewSink(), local = NewSink();
  const EngineRequest request = PrefillRequest(1, 40, 1, first);
  ASSERT_TRUE(prefill.Submit(request).ok());
  ASSERT_TRUE(prefill.RunUntilIdle());
  auto rest = std::make_shared<RecordingSink>(FromSecond(1));
  ASSERT_TRUE(decode.Submit(HandOver(request, *first, &prefill, &decode, rest)).ok());
  decode.Step();
  EngineRequest generate = request;
  generate.id = 2;
  generate.work = WorkKind::kGenerate;
  generate.sink = local;
  ASSERT_TRUE(decode.Submit(generate).ok());
  ASSERT_TRUE(decode.RunUntilIdle());
  EXPECT_EQ(local->cached_tokens(), 32u);
  EXPECT_EQ(local->ids(), FakeModelTokens(generate.sampling, 0, kVocab, generate.prompt));
}

TEST(HandoffRequests, PD_05_CorruptKvIsNotPublishedWhenItShows) {
  EngineHarness prefill, decode;
  auto first = NewSink();
  const EngineRequest request = PrefillRequest(1, 40, 1, first);
  ASSERT_TRUE(prefill.Submit(request).ok());
  ASSERT_TRUE(prefill.RunUntilIdle());
  auto rest = std::make_shared<RecordingSink>(FromSecond(1));
  EngineRequest handed = HandOver(request, *first, &prefill, &decode, rest);
  decode.runner.Slots(handed.blocks[1])[3] = ~uint64_t{0};  // NaN
  ASSERT_TRUE(decode.Submit(handed).ok());
  ASSERT_TRUE(decode.RunUntilIdle());
  EXPECT_EQ(rest->status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(decode.pool.counts().free, decode.pool.size());
}

TEST(HandoffRequests, RandomHandoffsUnderPressureGiveTheTokensOfOneEngine) {
  uint64_t preemptions = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    HarnessOptions small;
    small.blocks = 14;
    small.scheduler.max_batch = 1 + random() % 8;
    small.scheduler.chunk_tokens = 1 + random() % 40;
    EngineHarness prefill, decode(small);
    struct Handoff {
      EngineRequest request;
      std::shared_ptr<RecordingSink> first, rest;
    };
    std::vector<Handoff> handoffs;
    for (uint64_t id = 1; id <= 20; ++id) {
      const uint32_t choices = 1 + random() % 3;
      Handoff handoff{{}, NewSink(), std::make_shared<RecordingSink>(FromSecond(choices))};
      handoff.request = PrefillRequest(id, 1 + random() % 60, choices, handoff.first, random() % 3);
      handoff.request.sampling.max_tokens = 2 + random() % 40;
      ASSERT_TRUE(prefill.Submit(handoff.request).ok());
      ASSERT_TRUE(prefill.RunUntilIdle());
      for (int steps = 0; decode.pool.counts().available() < 7; ++steps) {
        ASSERT_LT(steps, 10000);
        decode.Step();
      }
      ASSERT_TRUE(decode.Submit(HandOver(handoff.request, *handoff.first, &prefill, &decode, handoff.rest)).ok());
      prefill.Release(id);
      handoffs.push_back(handoff);
    }
    ASSERT_TRUE(decode.RunUntilIdle());
    for (const Handoff& handoff : handoffs) {
      ASSERT_TRUE(handoff.rest->ended());
      EXPECT_EQ(handoff.rest->broken_contract(), "");
      for (const ChoiceStart& choice : handoff.request.choices) {
        auto tokens = handoff.first->ids(choice.index);
        const auto more = handoff.rest->ids(choice.index);
        tokens.insert(tokens.end(), more.begin(), more.end());
        ASSERT_EQ(tokens, FakeModelTokens(handoff.request.sampling, choice.index, kVocab, handoff.request.prompt));
      }
    }
    EXPECT_EQ(decode.pool.counts().owned, 0u);
    preemptions += decode.loop.load().preemptions;
  }
  EXPECT_GT(preemptions, 20u);
}

}  // namespace
}  // namespace baton
