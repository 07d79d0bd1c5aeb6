// Random workloads on small pools: every choice gets the tokens it gets alone, and every block comes back.

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "common/base/status.h"
#include "tests/fakes/engine_harness.h"

namespace baton {
namespace {

struct Submitted {
  EngineRequest request;
  std::shared_ptr<RecordingSink> sink;
  bool cancelled = false;
  std::map<uint32_t, bool> cancelled_choices;
  bool released = false;
};

class Workload {
 public:
  explicit Workload(uint32_t seed) : random_(seed), harness_(RandomOptions()) {
    harness_.runner.step_cost = [](std::span<const StepSequence> batch) {
      size_t tokens = 0;
      for (const StepSequence& sequence : batch) tokens += sequence.tokens.size();
      return std::chrono::microseconds(500 + 100 * tokens);
    };
    harness_.runner.swap_cost = std::chrono::microseconds(Below(1000));
  }

  void Run() {
    const uint32_t requests = 3 + Below(12);
    uint32_t steps = 0, submitted = 0, idle = 0;
    while (true) {
      while (submitted < requests && Below(3) == 0) Submit(++submitted);
      if (Below(12) == 0) CancelSomething();
      if (Below(4) == 0) ReleaseSomething();
      const bool stepped = harness_.Step();
      const BlockCounts counts = harness_.pool.counts();
      ASSERT_EQ(counts.total(), harness_.pool.size());
      ASSERT_LT(++steps, 60000u) << "no end in sight";
      if (stepped || submitted < requests) {
        idle = 0;
        continue;
      }
      // Only blocks that a prefill holds may keep work from running for more than the step after a preemption and the
      // time that a dynamic batch waits.
      const bool released = ReleaseAll() > 0;
      if (!released && !harness_.loop.HasWork()) break;
      idle = released ? 0 : idle + 1;
      ASSERT_LE(idle, patience_) << "deadlock";
    }
    harness_.Step();
    CheckResults();
  }

  uint64_t preemptions() const { return harness_.loop.load().preemptions; }
  uint64_t swaps() const { return harness_.loop.load().swap_preemptions; }
  uint64_t prefix_hits() const { return harness_.loop.load().prefix_hits; }

 private:
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

  HarnessOptions RandomOptions() {
    HarnessOptions options;
    options.scheduler.block_size = Below(2) == 0 ? 4 : 16;
    longest_ = 10 + Below(60);  // prompt + generated tokens
    const uint32_t need = (longest_ + options.scheduler.block_size - 1) / options.scheduler.block_size;
    options.blocks = Below(2) == 0 ? need + Below(4) : need * (1 + Below(8));
    options.scheduler.max_batch = 1 + Below(10);
    options.scheduler.step_limit = 4 + Below(90);
    options.scheduler.max_step_tokens = 1 + Below(options.scheduler.step_limit);
    options.scheduler.chunk_tokens = 1 + Below(40);
    options.scheduler.chunked_prefill = Below(4) != 0;
    options.scheduler.prefix_cache = Below(4) != 0;
    options.scheduler.watermark_blocks = Below(3);
    options.scheduler.batching = static_cast<BatchingMode>(std::max<int>(0, static_cast<int>(Below(6)) - 3));
    options.scheduler.batch_timeout = std::chrono::milliseconds(Below(4));  // a step takes one
    options.scheduler.priority_aging = std::chrono::milliseconds(Below(2) * Below(10));
    options.scheduler.swap_slots = Below(2) * Below(30);
    options.scheduler.preemption = static_cast<PreemptionMode>(Below(3));
    options.scheduler.max_itl = std::chrono::milliseconds(Below(2) * (1 + Below(40)));
    patience_ = 2 + static_cast<uint32_t>(options.scheduler.batch_timeout / std::chrono::milliseconds(1));
    return options;
  }

  void Submit(uint64_t id) {
    // A few common prefixes.
    const uint32_t prompt_size = 1 + Below(longest_ - 2);
    std::vector<TokenId> prompt = MakePrompt(prompt_size, Below(3));
    if (Below(2) == 0) prompt.back() = static_cast<TokenId>(Below(97));
    auto sink = std::make_shared<RecordingSink>();
    EngineRequest request = MakeRequest(id, prompt, 1 + Below(longest_ - prompt_size), sink, 1 + Below(4));
    request.priority = static_cast<int32_t>(Below(3));
    request.use_prefix_cache = Below(5) != 0;
    request.cache_salt = Below(4) == 0 ? "salt" : "";
    request.sampling.stop_token_ids = {static_cast<TokenId>(Below(97))};
    if (Below(4) == 0) {
      request.work = WorkKind::kPrefill;
    } else if (Below(4) == 0) {
      std::map<uint32_t, uint32_t> first;
      for (ChoiceStart& choice : request.choices) Resume(request, &choice, &first);
      sink = std::make_shared<RecordingSink>(first);
      request.sink = sink;
    }
    ASSERT_TRUE(harness_.Submit(request).ok());
    all_.push_back({request, sink});
  }

  // Lets a choice start with some of its own tokens.
  void Resume(const EngineRequest& request, ChoiceStart* choice, std::map<uint32_t, uint32_t>* first) {
    auto tokens = FakeModelTokens(request.sampling, choice->index, 97, request.prompt);
    tokens.resize(Below(static_cast<uint32_t>(tokens.size())));
    choice->generated = tokens;
    (*first)[choice->index] = static_cast<uint32_t>(tokens.size());
  }

  void CancelSomething() {
    if (all_.empty()) return;
    Submitted& submitted = all_[Below(static_cast<uint32_t>(all_.size()))];
    if (Below(3) == 0) {
      harness_.Cancel(submitted.request.id);
      submitted.cancelled = true;
    } else {
      const uint32_t choice = Below(static_cast<uint32_t>(submitted.request.choices.size()));
      harness_.CancelChoice(submitted.request.id, choice);
      submitted.cancelled_choices[choice] = true;
    }
  }

  void ReleaseSomething() {
    for (Submitted& submitted : all_) {
      if (submitted.request.work == WorkKind::kPrefill && submitted.sink->ended() && Below(2) == 0) Release(&submitted);
    }
  }

  uint32_t ReleaseAll() {
    uint32_t released = 0;
    for (Submitted& submitted : all_) {
      if (submitted.released || submitted.request.work != WorkKind::kPrefill || !submitted.sink->ended()) continue;
      Release(&submitted);
      ++released;
    }
    return released;
  }

  void Release(Submitted* submitted) {
    harness_.Release(submitted->request.id);
    submitted->released = true;
  }

  void CheckResults() {
    for (const Submitted& submitted : all_) {
      const EngineRequest& request = submitted.request;
      SCOPED_TRACE(testing::Message() << "request " << request.id);
      ASSERT_TRUE(submitted.sink->ended());
      EXPECT_EQ(submitted.sink->broken_contract(), "");
      const absl::Status status = submitted.sink->status();
      EXPECT_TRUE(status.ok() || (submitted.cancelled && status.code() == absl::StatusCode::kCancelled)) << status;
      for (const ChoiceStart& choice : request.choices) {
        auto expected = FakeModelTokens(request.sampling, choice.index, 97, request.prompt, choice.generated);
        if (request.work == WorkKind::kPrefill) expected.resize(1);
        const auto ids = submitted.sink->ids(choice.index);
        if (!status.ok() || submitted.cancelled_choices.contains(choice.index)) {
          ASSERT_LE(ids.size(), expected.size());
          expected.resize(ids.size());
        }
        EXPECT_EQ(ids, expected) << "choice " << choice.index;
      }
    }
    const BlockCounts counts = harness_.pool.counts();
    EXPECT_EQ(counts.owned, 0u);
    EXPECT_EQ(counts.available(), harness_.pool.size());
    const EngineLoad load = harness_.loop.load();
    EXPECT_EQ(load.running_sequences, 0u);
    EXPECT_EQ(load.waiting_requests, 0u);
    EXPECT_EQ(load.waiting_prompt_tokens, 0u);
    EXPECT_EQ(load.swap_slots_used, 0u);
  }

  std::mt19937 random_;
  uint32_t longest_ = 0;
  uint32_t patience_ = 0;
  EngineHarness harness_;
  std::vector<Submitted> all_;
};

TEST(StepLoopProperty, RandomWorkloadsGiveTheTokensOfRunningAlone) {
  uint64_t preemptions = 0, swaps = 0, hits = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Workload workload(seed);
    workload.Run();
    if (HasFailure()) return;
    preemptions += workload.preemptions();
    swaps += workload.swaps();
    hits += workload.prefix_hits();
  }
  // Else the property says nothing about these.
  EXPECT_GT(preemptions, 500u);
  EXPECT_GT(swaps, 100u);
  EXPECT_GT(hits, 500u);
}

}  // namespace
}  // namespace baton
