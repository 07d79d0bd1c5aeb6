#include "common/engine/engine.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "common/base/status.h"
#include "tests/fakes/engine_harness.h"

namespace baton {
namespace {

constexpr uint32_t kBlocks = 64;

KvLayout Layout() { return {DType::kF32, 1, 1, 1, 16}; }

class EngineTest : public testing::Test {
 protected:
  void Start(const EngineOptions& options = {}) {
    engine_ = std::make_unique<Engine>(options, Layout(), &runner_, &pool_, &clock_,
                                       [this](const StepReport&) { ++reports_; });
  }
  // Holds the step thread inside its first step until open_.
  void Shut() {
    runner_.before_step = [this] {
      if (entered_.HasBeenNotified()) return absl::OkStatus();
      entered_.Notify();
      open_.WaitForNotification();
      return absl::OkStatus();
    };
  }
  static std::shared_ptr<RecordingSink> NewSink() { return std::make_shared<RecordingSink>(); }
  template <typename Condition>
  static bool Eventually(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  BlockPool pool_{kBlocks};
  FakeRunner runner_{{kBlocks, 16, 97, 512, 64}};
  SteadyClock clock_;
  std::atomic<uint64_t> reports_{0};
  absl::Notification entered_, open_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, ServesManyThreads) {
  Start();
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (uint64_t i = 0; i < 20; ++i) {
        auto sink = NewSink();
        const EngineRequest request = MakeRequest(thread * 100 + i, MakePrompt(30, static_cast<uint32_t>(i)), 10, sink);
        ASSERT_TRUE(engine_->Submit(request).ok());
        ASSERT_TRUE(sink->AwaitEnd());
        EXPECT_EQ(sink->ids(), FakeModelTokens(request.sampling, 0, 97, request.prompt));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(engine_->load().generated_tokens, 800u);
  EXPECT_TRUE(Eventually([&] { return reports_ == engine_->load().steps; }));
  EXPECT_EQ(pool_.counts().owned, 0u);
}

TEST_F(EngineTest, RefusesWithNumbersBeforeQueueing) {
  EngineOptions options;
  options.max_model_len = 100;
  Start(options);
  EXPECT_EQ(engine_->Submit(MakeRequest(1, MakePrompt(95, 1), 6, NewSink())).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(engine_->Submit(MakeRequest(1, {}, 6, NewSink())).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_->load().waiting_requests, 0u);
}

TEST_F(EngineTest, ABusyStepThreadLetsTheQueueFillUpToItsCapacity) {
  Shut();
  EngineOptions options;
  options.queue_capacity = 3;
  Start(options);
  ASSERT_TRUE(engine_->Submit(MakeRequest(1, MakePrompt(5, 1), 3, NewSink())).ok());
  entered_.WaitForNotification();
  for (uint64_t id = 2; id <= 4; ++id)
    EXPECT_TRUE(engine_->Submit(MakeRequest(id, MakePrompt(5, 1), 3, NewSink())).ok());
  EXPECT_EQ(engine_->Submit(MakeRequest(5, MakePrompt(5, 1), 3, NewSink())).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(engine_->load().waiting_requests, 3u);
  EXPECT_EQ(engine_->load().running_sequences, 1u);
  EXPECT_EQ(engine_->load().waiting_prompt_tokens, 15u + 5u);  // the one in its step has not been counted off yet
  open_.Notify();
  EXPECT_TRUE(Eventually([&] { return engine_->load().generated_tokens == 12; }));
}

TEST_F(EngineTest, RPC_07_AStuckStepShowsAndAnIdleEngineDoesNot) {
  Shut();
  Start();
  EXPECT_EQ(engine_->stalled_for(), Duration::zero());
  ASSERT_TRUE(engine_->Submit(MakeRequest(1, MakePrompt(5, 1), 3, NewSink())).ok());
  entered_.WaitForNotification();
  EXPECT_TRUE(Eventually([&] { return engine_->stalled_for() > std::chrono::milliseconds(20); }));
  open_.Notify();
  EXPECT_TRUE(Eventually([&] { return engine_->stalled_for() == Duration::zero(); }));
}

TEST_F(EngineTest, WorkThatWaitsForBlocksOfOthersStartsWhenTheyComeBackAndIsNoStall) {
  Start();
  const auto leased = pool_.Lease(kBlocks - 1);
  ASSERT_TRUE(leased.ok());
  auto sink = NewSink();
  ASSERT_TRUE(engine_->Submit(MakeRequest(1, MakePrompt(40, 1), 3, sink)).ok());
  ASSERT_TRUE(Eventually([&] { return engine_->load().waiting_requests == 1; }));
  // A stall would be as old as the wait.
  const auto since = std::chrono::steady_clock::now();
  EXPECT_TRUE(Eventually([&] {
    const Duration waited = std::chrono::steady_clock::now() - since;
    return waited > std::chrono::milliseconds(100) && engine_->stalled_for() < waited / 2;
  }));
  EXPECT_FALSE(sink->ended());
  pool_.FreeLease(*leased);
  EXPECT_TRUE(sink->AwaitEnd());
  EXPECT_TRUE(sink->status().ok());
}

TEST_F(EngineTest, DrainLetsRunningWorkFinishAndTakesNoMore) {
  Start();
  auto sink = NewSink();
  ASSERT_TRUE(engine_->Submit(MakeRequest(1, MakePrompt(40, 1), 200, sink)).ok());
  EXPECT_TRUE(engine_->Drain(std::chrono::seconds(60)).ok());
  EXPECT_TRUE(sink->ended());
  EXPECT_EQ(sink->ids().size(), 200u);
  EXPECT_EQ(engine_->Submit(MakeRequest(2, MakePrompt(40, 1), 2, NewSink())).code(), absl::StatusCode::kUnavailable);
}

TEST_F(EngineTest, RPC_06_AtTheDrainDeadlineTheRestEndsWithUnavailable) {
  Shut();
  Start();
  auto sink = NewSink();
  ASSERT_TRUE(engine_->Submit(MakeRequest(1, MakePrompt(40, 1), 200, sink)).ok());
  entered_.WaitForNotification();
  EXPECT_EQ(engine_->Drain(std::chrono::milliseconds(1)).code(), absl::StatusCode::kDeadlineExceeded);
  open_.Notify();
  ASSERT_TRUE(sink->AwaitEnd());
  EXPECT_EQ(sink->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(sink->ids().size(), 200u);
  EXPECT_TRUE(engine_->Drain(std::chrono::seconds(60)).ok());
  EXPECT_EQ(pool_.counts().owned, 0u);
}

TEST_F(EngineTest, TheEndOfTheEngineEndsEveryRequestAndReturnsEveryBlock) {
  EngineOptions options;
  options.max_batch = 2;
  Start(options);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint64_t id = 1; id <= 6; ++id) {
    sinks.push_back(NewSink());
    EngineRequest request = MakeRequest(id, MakePrompt(40, static_cast<uint32_t>(id)), 900, sinks.back());
    if (id == 1) request.work = WorkKind::kPrefill;
    ASSERT_TRUE(engine_->Submit(request).ok());
  }
  ASSERT_TRUE(sinks[0]->AwaitEnd());  // its blocks are held now
  ASSERT_TRUE(sinks[1]->AwaitTokens(3));
  engine_.reset();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->ended());
  EXPECT_EQ(sinks[5]->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(pool_.counts().available(), kBlocks);
}

TEST_F(EngineTest, CancelsFromOtherThreadsEndEveryRequestOnce) {
  Start();
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint64_t id = 0; id < 200; ++id) {
    sinks.push_back(NewSink());
    ASSERT_TRUE(engine_->Submit(MakeRequest(id, MakePrompt(20, static_cast<uint32_t>(id)), 50, sinks.back(), 2)).ok());
  }
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 2; ++thread) {
    threads.emplace_back([this, thread] {
      for (uint64_t id = thread; id < 200; id += 3) {
        engine_->CancelChoice(id, 1);
        engine_->Cancel(id);
        engine_->Release(id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& sink : sinks) {
    ASSERT_TRUE(sink->AwaitEnd());
    EXPECT_EQ(sink->broken_contract(), "");
  }
  EXPECT_TRUE(Eventually([&] { return engine_->load().running_sequences == 0; }));
  EXPECT_EQ(pool_.counts().owned, 0u);
}

}  // namespace
}  // namespace baton
