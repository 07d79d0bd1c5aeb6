// No starvation, and no cost of waiting: properties of the scheduler over random endless arrivals.

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/fakes/engine_harness.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

// A scheduler whose requests generate `tokens` tokens; a step takes a millisecond.
class Traffic {
 public:
  Traffic(uint32_t blocks, const SchedulerOptions& options) : pool_(blocks), scheduler_(options, &pool_) {}

  uint64_t Add(int32_t priority, uint32_t prompt, uint32_t tokens) {
    const uint64_t id = ++last_id_;
    auto request = std::make_unique<ActiveRequest>();
    request->spec = MakeRequest(id, MakePrompt(prompt, static_cast<uint32_t>(id)), tokens, nullptr);
    request->spec.priority = priority;
    request->submitted = now_;
    scheduler_.Add(request.get());
    requests_.emplace(id, std::move(request));
    return id;
  }

  void Step() {
    std::vector<ActiveRequest*> done;
    for (const ScheduledRun& run : scheduler_.Schedule(now_).runs) {
      ActiveRequest* request = run.sequence->request;
      scheduler_.Advance(run);
      if (!run.wants_logits) continue;
      scheduler_.Append(run.sequence, 1);
      if (run.sequence->tokens.size() >= request->prompt_size() + request->spec.sampling.max_tokens) {
        done.push_back(request);
      }
    }
    for (ActiveRequest* request : done) {
      scheduler_.Remove(request);
      requests_.erase(request->spec.id);
    }
    now_ += milliseconds(1);
  }

  bool Runs(uint64_t id) const { return requests_.contains(id); }
  size_t live() const { return requests_.size(); }
  TimePoint now() const { return now_; }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  BlockPool pool_;
  Scheduler scheduler_;
  TimePoint now_{};
  uint64_t last_id_ = 0;
  std::map<uint64_t, std::unique_ptr<ActiveRequest>> requests_;
};

// More urgent work arrives in every step than the pool and the batch can take, for ever.
TEST(SchedulerFairness, EndlessUrgentArrivalsAndPreemptionDoNotStarveTheLeastUrgent) {
  uint64_t preemptions = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    SchedulerOptions options;
    options.max_batch = 1 + random() % 6;
    options.chunk_tokens = 8 + random() % 64;
    options.priority_aging = milliseconds(1 + random() % 8);
    options.swap_slots = random() % 2 * 20;
    options.batching = static_cast<BatchingMode>(random() % 3);
    options.batch_timeout = milliseconds(random() % 5);
    const uint32_t blocks = 8 + random() % 12;
    Traffic traffic(blocks, options);
    const auto urgent = [&] { traffic.Add(-10, 1 + random() % 64, 1 + random() % 40); };
    for (int i = 0; i < 5; ++i) urgent();
    const uint64_t patient = traffic.Add(10, 1 + random() % 64, 1 + random() % 40);
    // Only what comes within 20 levels of aging may go before it; a request takes less than 200 steps alone.
    const auto lead = 20 * options.priority_aging / milliseconds(1);
    const int64_t limit = 200 * (lead + 10);
    int64_t steps = 0;
    for (; traffic.Runs(patient) && steps < limit; ++steps) {
      urgent();
      traffic.Step();
    }
    EXPECT_LT(steps, limit);
    preemptions += traffic.scheduler().counts().preemptions;
  }
  EXPECT_GT(preemptions, 100u);  // else this says nothing about them
}

TEST(SchedulerFairness, WithoutAgingPriorityAloneCounts) {
  SchedulerOptions options;
  options.max_batch = 1;
  Traffic traffic(20, options);
  const uint64_t patient = traffic.Add(1, 10, 1);
  for (int i = 0; i < 1000; ++i) {
    traffic.Add(0, 10, 1);
    traffic.Step();
  }
  EXPECT_TRUE(traffic.Runs(patient));
}

// Counts work, not time: how many sequences planning looked at.
TEST(SchedulerFairness, PlanningLooksAtWhatRunsNotAtWhatWaits) {
  for (const BatchingMode mode : {BatchingMode::kContinuous, BatchingMode::kDynamic, BatchingMode::kStatic}) {
    const auto visits = [mode](uint32_t waiting, bool needs_blocks) {
      SchedulerOptions options;
      options.max_batch = 8;
      options.batching = mode;
      Traffic traffic(needs_blocks ? 20 : 5000, options);
      for (uint32_t i = 0; i < 8; ++i) traffic.Add(0, 10, 100);
      for (uint32_t i = 0; i < waiting; ++i) traffic.Add(0, 10, 100);
      traffic.Step();
      const uint64_t before = traffic.scheduler().counts().visits;
      for (int i = 0; i < 50; ++i) traffic.Step();
      return traffic.scheduler().counts().visits - before;
    };
    for (const bool needs_blocks : {false, true}) {
      const uint64_t none = visits(0, needs_blocks);
      EXPECT_GE(none, 50u * 8);
      for (const uint32_t waiting : {1u, 1000u, 20000u}) EXPECT_LE(visits(waiting, needs_blocks), none + 50 * 10);
      EXPECT_EQ(visits(1000, needs_blocks), visits(20000, needs_blocks));
    }
  }
}

}  // namespace
}  // namespace baton
