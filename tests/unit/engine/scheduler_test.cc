#include "common/engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/fakes/engine_harness.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A scheduler whose "model" samples token 1 for ever.
class SchedulerTest : public testing::Test {
 protected:
  void Init(uint32_t blocks, const SchedulerOptions& options) {
    pool_ = std::make_unique<BlockPool>(blocks);
    scheduler_ = std::make_unique<Scheduler>(options, pool_.get());
  }

  ActiveRequest* Add(uint64_t id, uint32_t prompt_size, int32_t priority = 0, uint32_t choices = 1,
                     WorkKind work = WorkKind::kGenerate) {
    auto request = std::make_unique<ActiveRequest>();
    request->spec = MakeRequest(id, MakePrompt(prompt_size, static_cast<uint32_t>(id)), 1000, nullptr, choices);
    request->spec.priority = priority;
    request->submitted = now_;
    request->spec.work = work;
    if (work == WorkKind::kDecode) {
      for (ChoiceStart& choice : request->spec.choices) choice.generated = {1};
      request->spec.blocks = *pool_->Allocate((prompt_size + 15) / 16 + choices);
    }
    requests_.push_back(std::move(request));
    scheduler_->Add(requests_.back().get());
    return requests_.back().get();
  }

  // Plans and "runs" a step. Returns "id:begin-end" of each run.
  std::vector<std::string> Step() {
    const StepPlan& plan = scheduler_->Schedule(now_);
    std::vector<std::string> runs;
    uint32_t tokens = 0;
    for (const ScheduledRun& run : plan.runs) {
      ActiveRequest* request = run.sequence->request;
      runs.push_back(std::to_string(request->spec.id) + ":" + std::to_string(run.begin) + "-" +
                     std::to_string(run.end));
      tokens += run.end - run.begin;
      scheduler_->Advance(run);
      if (!request->forked && request->spec.work == WorkKind::kGenerate && run.wants_logits) {
        scheduler_->Fork(request);
        for (const auto& sequence : request->sequences) scheduler_->Append(sequence.get(), 1);
      } else if (run.wants_logits && request->forked) {
        scheduler_->PublishFull(run.sequence);
        scheduler_->Append(run.sequence, 1);
      }
    }
    EXPECT_EQ(plan.tokens, tokens);
    return runs;
  }

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<ActiveRequest>> requests_;
  TimePoint now_{};  // a step takes no time unless a test says so
};

TEST_F(SchedulerTest, DecodesFirstThenPromptChunksUpToTheBudget) {
  SchedulerOptions options;
  options.max_step_tokens = 40;
  options.chunk_tokens = 32;
  Init(64, options);
  Add(1, 20);
  EXPECT_THAT(Step(), ElementsAre("1:0-20"));
  Add(2, 100);
  Add(3, 10);
  EXPECT_THAT(Step(), ElementsAre("1:20-21", "2:0-32", "3:0-7"));
  EXPECT_THAT(Step(), ElementsAre("1:21-22", "2:32-64", "3:7-10"));
  EXPECT_THAT(Step(), ElementsAre("1:22-23", "3:10-11", "2:64-96"));
}

TEST_F(SchedulerTest, WithoutChunkingAPromptRunsInOneStepUpToTheRunnersLimit) {
  SchedulerOptions options;
  options.max_step_tokens = 40;
  options.step_limit = 128;
  options.chunk_tokens = 8;
  options.chunked_prefill = false;
  Init(64, options);
  Add(1, 100);
  Add(2, 30);
  Add(3, 200);
  EXPECT_THAT(Step(), ElementsAre("1:0-100"));
  EXPECT_THAT(Step(), ElementsAre("1:100-101", "2:0-30"));
  EXPECT_THAT(Step(), ElementsAre("1:101-102", "2:30-31", "3:0-126"));
  EXPECT_THAT(Step(), ElementsAre("1:102-103", "2:31-32", "3:126-200"));
}

TEST_F(SchedulerTest, PriorityThenArrival) {
  SchedulerOptions options;
  options.max_batch = 1;
  Init(64, options);
  ActiveRequest* running = Add(1, 5);
  EXPECT_THAT(Step(), ElementsAre("1:0-5"));
  Add(2, 5, 7);
  Add(3, 5, 7);
  ActiveRequest* urgent = Add(4, 5, 1);
  scheduler_->Remove(running);
  EXPECT_THAT(Step(), ElementsAre("4:0-5"));
  scheduler_->Remove(urgent);
  EXPECT_THAT(Step(), ElementsAre("2:0-5"));
}

TEST_F(SchedulerTest, APromptIsLetInOnlyWithAllItsBlocksAboveTheWatermark) {
  SchedulerOptions options;
  options.watermark_blocks = 2;
  Init(10, options);
  Add(1, 16 * 4);  // 4 of 10
  EXPECT_THAT(Step(), ElementsAre("1:0-64"));
  ActiveRequest* large = Add(2, 16 * 3);  // 5 + 3 and one to grow + 2 above
  EXPECT_THAT(Step(), ElementsAre("1:64-65"));
  Add(3, 5);  // would fit, but must not overtake
  EXPECT_THAT(Step(), ElementsAre("1:65-66"));
  scheduler_->Remove(large);
  EXPECT_THAT(Step(), ElementsAre("1:66-67", "3:0-5"));
}

TEST_F(SchedulerTest, TheWatermarkDoesNotKeepALoneRequestOut) {
  SchedulerOptions options;
  options.watermark_blocks = 5;
  Init(4, options);
  Add(1, 16 * 4);
  EXPECT_THAT(Step(), ElementsAre("1:0-64"));
}

TEST_F(SchedulerTest, TheLatestOfTheLowestPriorityIsPreemptedFirst) {
  Init(6, {});
  Add(1, 16, 0);
  ActiveRequest* low_early = Add(2, 16, 5);
  ActiveRequest* low_late = Add(3, 16, 5);
  ActiveRequest* high_late = Add(4, 16, 0);
  EXPECT_THAT(Step(), ElementsAre("1:0-16", "4:0-16", "2:0-16", "3:0-16"));
  // A block each, two left, and every one wants its second now.
  EXPECT_THAT(Step(), ElementsAre("1:16-17", "4:16-17", "2:16-17"));
  EXPECT_EQ(low_late->preemptions, 1u);
  EXPECT_EQ(low_early->preemptions, 0u);
  EXPECT_EQ(high_late->preemptions, 0u);
  for (int i = 0; i < 15; ++i) Step();
  EXPECT_THAT(Step(), ElementsAre("1:32-33", "4:32-33"));  // the third
  EXPECT_EQ(low_early->preemptions, 1u);
  EXPECT_EQ(scheduler_->counts().preemptions, 2u);
}

TEST_F(SchedulerTest, APreemptedSequenceRunsPromptAndGeneratedTokensAgain) {
  SchedulerOptions options;
  options.prefix_cache = false;
  Init(4, options);
  ActiveRequest* first = Add(1, 16);
  Add(2, 16);
  Step();
  for (int i = 0; i < 16; ++i) Step();
  EXPECT_THAT(Step(), ElementsAre("1:32-33"));
  EXPECT_EQ(requests_[1]->preemptions, 1u);
  scheduler_->Remove(first);
  EXPECT_THAT(Step(), ElementsAre("2:0-33"));
}

TEST_F(SchedulerTest, ForksShareThePromptAndCopyItsPartialBlock) {
  Init(16, {});
  Add(1, 40, 0, 4);
  EXPECT_THAT(Step(), ElementsAre("1:0-40"));
  EXPECT_EQ(pool_->counts().owned, 3u);
  const StepPlan& plan = scheduler_->Schedule(now_);
  EXPECT_EQ(plan.runs.size(), 4u);
  EXPECT_EQ(plan.copies.size(), 3u);  // the last holder writes in place
  EXPECT_EQ(pool_->counts().owned, 6u);
}

TEST_F(SchedulerTest, AHandoffStartsWithTheBlocksItBrought) {
  Init(16, {});
  Add(1, 32, 0, 2, WorkKind::kDecode);  // 2 blocks and one to grow for each choice
  EXPECT_EQ(pool_->counts().owned, 4u);
  EXPECT_THAT(Step(), ElementsAre("1:32-33", "1:32-33"));
  EXPECT_EQ(pool_->counts().owned, 4u);
  scheduler_->Remove(requests_[0].get());
  EXPECT_EQ(pool_->counts().owned, 0u);
}

TEST_F(SchedulerTest, APartialBlockOfAHandoffIsCopiedIntoTheGrowthBlocks) {
  Init(5, {});
  Add(1, 40, 0, 2, WorkKind::kDecode);
  EXPECT_EQ(pool_->counts().available(), 0u);
  EXPECT_THAT(Step(), ElementsAre("1:40-41", "1:40-41"));
  for (int i = 0; i < 7; ++i) Step();
  EXPECT_EQ(scheduler_->counts().preemptions, 0u);
}

TEST_F(SchedulerTest, MoreSequencesThanSlotsTakeTurns) {
  SchedulerOptions options;
  options.max_batch = 2;
  Init(64, options);
  for (uint64_t id = 1; id <= 4; ++id) Add(id, 5, 0, 1, WorkKind::kDecode);
  std::map<std::string, int> turns;
  for (int i = 0; i < 300; ++i) {
    const auto runs = Step();
    ASSERT_EQ(runs.size(), 2u);
    for (const std::string& run : runs) ++turns[run.substr(0, 1)];
  }
  for (const char* id : {"1", "2", "3", "4"}) EXPECT_GT(turns[id], 1) << id;
}

TEST_F(SchedulerTest, AStreamOfUrgentRequestsDoesNotStarveTheOldest) {
  SchedulerOptions options;
  options.max_batch = 1;
  options.priority_aging = std::chrono::seconds(2);
  Init(64, options);
  ActiveRequest* patient = Add(1, 5, 9);
  ActiveRequest* current = Add(2, 5, 0);
  int rounds = 0;
  for (uint64_t id = 3; !patient->admitted && rounds < 100; ++id, ++rounds) {
    now_ += std::chrono::seconds(1);
    ActiveRequest* next = Add(id, 5, 0);
    Step();
    if (current->admitted) {
      scheduler_->Remove(current);
      current = next;
    }
  }
  EXPECT_EQ(rounds, 19);  // nine levels of two seconds
}

TEST_F(SchedulerTest, AStreamOfHandoffsDoesNotStarveARequestThatNeedsBlocks) {
  Init(20, {});
  std::vector<ActiveRequest*> handoffs;
  for (uint64_t id = 1; id <= 4; ++id) handoffs.push_back(Add(id, 16, 0, 1, WorkKind::kDecode));
  ActiveRequest* large = Add(100, 16 * 18);
  int rounds = 0;
  for (uint64_t id = 200; !large->admitted && rounds < 500; ++id, ++rounds) {
    if (pool_->counts().available() >= 2) handoffs.push_back(Add(id, 16, 0, 1, WorkKind::kDecode));
    Step();
    if (!large->admitted && handoffs.size() > 4) {
      scheduler_->Remove(handoffs.front());
      handoffs.erase(handoffs.begin());
    }
  }
  EXPECT_LT(rounds, 200);
}

TEST_F(SchedulerTest, APromptGetsASlotBesideAFullBatchOfDecodes) {
  SchedulerOptions options;
  options.max_batch = 3;
  options.chunk_tokens = 10;
  Init(64, options);
  Add(1, 40);
  EXPECT_THAT(Step(), ElementsAre("1:0-10"));
  for (uint64_t id = 2; id <= 6; ++id) Add(id, 5, 0, 1, WorkKind::kDecode);
  EXPECT_THAT(Step(), ElementsAre("2:5-6", "3:5-6", "1:10-20"));
}

TEST_F(SchedulerTest, PrefillsThatShareAPoolNeverHoldEachOtherUp) {
  Init(8, {});
  for (uint64_t id = 1; id <= 4; ++id) Add(id, 16 * 5, 0, 1, WorkKind::kPrefill);
  for (int round = 0; round < 4; ++round) {
    EXPECT_EQ(Step().size(), 1u);
    EXPECT_THAT(Step(), IsEmpty());  // done, and its blocks are held
    scheduler_->Remove(requests_[static_cast<size_t>(round)].get());
  }
}

TEST_F(SchedulerTest, WaitingTokensCountWhatIsNotCached) {
  Init(64, {});
  ActiveRequest* first = Add(1, 50);
  EXPECT_EQ(scheduler_->counts().waiting_tokens, 50u);
  Step();
  EXPECT_EQ(scheduler_->counts().waiting_tokens, 0u);
  Step();
  ActiveRequest* again = Add(1, 50);  // the same prompt: three blocks are in the cache
  EXPECT_EQ(scheduler_->counts().waiting_tokens, 2u);
  EXPECT_EQ(scheduler_->counts().waiting_requests, 1u);
  scheduler_->Remove(again);
  scheduler_->Remove(first);
  EXPECT_EQ(scheduler_->counts().waiting_tokens, 0u);
  EXPECT_FALSE(scheduler_->HasWork());
}

TEST_F(SchedulerTest, WaitingRequestsCostNextToNothingInAStep) {
  const auto cost = [this](uint32_t waiting) {
    SchedulerOptions options;
    options.max_batch = 8;
    Init(64, options);
    requests_.clear();
    for (uint64_t id = 1; id <= 8 + waiting; ++id) Add(id, 5);
    Step();
    auto best = std::chrono::nanoseconds::max();
    for (int i = 0; i < 50; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      Step();
      best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begin);
    }
    return best.count();
  };
  const auto few = cost(10), many = cost(20000);
  EXPECT_LT(many, 20 * few);  // 2,000 times the requests
}

}  // namespace
}  // namespace baton
