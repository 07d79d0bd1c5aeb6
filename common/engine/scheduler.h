#pragma once

// Decides what each step runs, who holds blocks, who waits. Plain logic over the block pool; no threads, no clock, no
// model. The caller runs a plan completely, reports its results, then asks for the next one.
//
// Order is (aged priority, arrival, choice) everywhere. A sequence is only ever preempted by one before it in that
// order, so the first always gets on; a prompt is let in with all its blocks, so prompts cannot block each other
// half-way.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/engine/block_table.h"
#include "common/engine/policies.h"
#include "common/engine/sequence.h"
#include "common/engine/step_cost.h"
#include "common/engine/swap_pool.h"
#include "common/kv/block_pool.h"

namespace baton {

struct SchedulerOptions {
  uint32_t block_size = 16;
  uint32_t max_batch = 64;         // sequences in a step
  uint32_t max_step_tokens = 512;  // token budget of a step
  uint32_t step_limit = 512;       // what the runner takes; an unchunked prompt may exceed the budget up to this
  uint32_t chunk_tokens = 256;
  bool chunked_prefill = true;
  bool prefix_cache = true;
  bool kv_cache = true;           // off: every token runs the whole sequence again; for comparison
  uint32_t watermark_blocks = 0;  // kept available when a sequence is let in while others run
  BatchingMode batching = BatchingMode::kContinuous;
  Duration batch_timeout{0};   // kDynamic: the longest that a request waits for others to fill its batch
  Duration priority_aging{0};  // the waiting time that is worth one level of priority; 0: priority alone
  // A step in which streams run takes no more prompt tokens than keep it within this, as far as its cost is known; 0:
  // no limit. Never fewer than kLeastPromptTokens, so that prompts get on beside any number of streams.
  Duration max_itl{0};
  PreemptionMode preemption = PreemptionMode::kAuto;
  uint32_t swap_slots = 0;  // of the runner's swap area
};

inline constexpr uint32_t kLeastPromptTokens = 16;  // of a step with prompts to read

struct ScheduledRun {
  Sequence* sequence;
  uint32_t begin;  // positions [begin, end)
  uint32_t end;
  bool wants_logits;
};

struct StepPlan {
  std::vector<BlockCopy> copies;  // to make in order before the step, also when it has no runs
  std::vector<ScheduledRun> runs;
  std::vector<ActiveRequest*> started;  // scheduled for the first time
  uint32_t tokens = 0;
  StepShape shape;                        // of the runs
  std::optional<uint32_t> prompt_budget;  // prompt tokens that max_itl allowed; none when it had no say
};

struct SchedulerCounts {
  uint32_t waiting_requests = 0;  // with no sequence running
  uint64_t waiting_tokens = 0;    // uncached tokens to run before the next sampled one
  uint32_t running_sequences = 0;
  uint64_t preemptions = 0;
  uint64_t swap_preemptions = 0;  // those of them whose KV was copied to the swap area
  uint64_t swapped_out_blocks = 0;
  uint64_t swapped_in_blocks = 0;
  uint32_t swap_slots_used = 0;
  uint64_t visits = 0;  // sequences that planning looked at: its work, which grows with what runs, not with what waits
  uint64_t prefix_queries = 0;
  uint64_t prefix_hits = 0;
};

class Scheduler {
 public:
  // `pool` outlives the scheduler.
  Scheduler(const SchedulerOptions& options, BlockPool* pool);

  // Takes a new request in (it must fit the pool when alone), whose `spec` and `submitted` are set. For kDecode takes
  // over spec.blocks.
  void Add(ActiveRequest* request);

  // The next step. Empty when nothing can run: no request, or all wait for blocks that others hold or for a dynamic
  // batch to fill. `now` never goes back.
  const StepPlan& Schedule(TimePoint now);

  // Results of a run, in this order:
  // the KV of [begin, end) was written;
  void Advance(const ScheduledRun& run);
  // the blocks that are full may be found by others (called once their content proved sound);
  void PublishFull(Sequence* sequence);
  // the shared prompt is complete: every unfinished choice becomes a sequence of its own;
  void Fork(ActiveRequest* request);
  // a sampled token is the sequence's next input;
  void Append(Sequence* sequence, TokenId token);
  // the choice has ended: its blocks go back, unless they hold the prompt of choices to be forked or of a kPrefill.
  void Finish(Sequence* sequence);
  // Finishes all of the request's choices and forgets it. The prompt's blocks of a kPrefill request may be taken out
  // before through sequence.table.Take().
  void Remove(ActiveRequest* request);

  // What the last plan's steps and swaps took, for max_itl and PreemptionMode::kAuto.
  StepCost& cost() { return cost_; }
  const StepCost& cost() const { return cost_; }

  bool HasWork() const { return requests_ > 0; }
  SchedulerCounts counts() const;

 private:
  struct ByOrder {
    bool operator()(const Sequence* a, const Sequence* b) const;
  };

  bool FixedBatches() const { return options_.batching != BatchingMode::kContinuous; }
  void FormBatch(TimePoint now);
  bool BatchIsDue(TimePoint now);
  void AdmitPassedOver();
  void ScheduleDecodes();
  void ScheduleChunks();
  void ScheduleWaiting();
  uint32_t ChunkSize(const Sequence& sequence);
  uint32_t WithinBudget(uint32_t position, uint32_t chunk);
  bool Place(Sequence* sequence, uint32_t tokens);
  bool TryAdmit(Sequence* sequence);
  bool SlotIsFree(const Sequence& sequence);
  Sequence* FindVictim(const Sequence* beneficiary);
  void Preempt(Sequence* sequence);
  bool SwapOut(Sequence* sequence);
  void SwapIn(Sequence* sequence);
  void DropSwapped(Sequence* sequence);
  void Wait(Sequence* sequence);
  void StopWaiting(Sequence* sequence);
  void StartRunning(Sequence* sequence);
  void StopRunning(Sequence* sequence);
  void Leave(Sequence* sequence);
  bool UsesCache(const ActiveRequest& request) const {
    return options_.prefix_cache && options_.kv_cache && request.spec.use_prefix_cache;
  }
  uint32_t BlocksFor(size_t tokens) const;
  // Full blocks before the last token: it must be run to get its logits.
  std::span<const Hash128> FindableChain(Sequence* sequence) const;

  const SchedulerOptions options_;
  BlockPool* const pool_;
  SwapPool swap_;
  StepCost cost_;

  std::set<Sequence*, ByOrder> running_;
  std::set<Sequence*, ByOrder> waiting_;
  uint32_t requests_ = 0;
  uint32_t requests_running_ = 0;
  uint64_t next_arrival_ = 0;
  uint64_t waiting_tokens_ = 0;
  SchedulerCounts totals_;

  uint64_t step_ = 0;
  uint32_t passed_over_ = 0;           // sequences that came in behind the blocked head and started before it
  const Sequence* blocked_ = nullptr;  // head of waiting_ that lacked blocks when `blocked_available_` were available
  uint32_t blocked_available_ = 0;

  // Of the step being planned.
  StepPlan plan_;
  std::vector<Sequence*> order_;
  uint32_t tokens_left_ = 0;
  uint32_t slots_left_ = 0;
  bool preempted_ = false;
  bool prompt_in_step_ = false;
};

}  // namespace baton
