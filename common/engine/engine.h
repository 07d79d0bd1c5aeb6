#pragma once

// The step loop: one thread owns scheduler, runner and samplers; everything else talks to it through a bounded queue.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/engine/policies.h"
#include "common/engine/request.h"
#include "common/engine/runner.h"
#include "common/kv/block_pool.h"
#include "common/kv/layout.h"

namespace baton {

struct EngineOptions {
  uint32_t max_batch = 64;         // sequences in a step
  uint32_t max_step_tokens = 512;  // token budget of a step
  uint32_t chunk_tokens = 256;     // most prompt tokens of one sequence in a step
  bool chunked_prefill = true;     // off: a prompt runs in one step (up to the runner's limit)
  bool prefix_cache = true;
  bool kv_cache = true;  // off: every token runs the whole sequence again, to show what the cache is worth
  BatchingMode batching = BatchingMode::kContinuous;
  Duration batch_timeout = std::chrono::milliseconds(50);  // dynamic: the longest wait for a full batch
  Duration priority_aging = std::chrono::seconds(5);       // waiting time worth one level of priority; 0: no aging
  Duration max_itl = std::chrono::milliseconds(250);       // target for a stream's gaps while prompts are read; 0: none
  PreemptionMode preemption = PreemptionMode::kAuto;       // swapping needs a runner with a swap area
  double watermark = 0.01;         // share of the pool kept available when a new prompt is let through
  uint32_t max_model_len = 0;      // prompt + generated tokens
  uint32_t queue_capacity = 4096;  // submitted and not yet seen by the step thread
};

// Plain counts for metrics, the state stream and liveness; safe from any thread.
struct EngineLoad {
  uint32_t waiting_requests = 0;
  uint64_t waiting_prompt_tokens = 0;  // uncached prompt tokens not yet run, of waiting and running requests
  uint32_t running_sequences = 0;
  uint64_t steps = 0;
  uint64_t preemptions = 0;
  uint64_t swap_preemptions = 0;  // those whose KV went to the swap area; the others compute it again
  uint64_t swapped_out_blocks = 0;
  uint64_t swapped_in_blocks = 0;
  uint32_t swap_slots_used = 0;
  uint64_t prefix_queries = 0;  // full prompt blocks looked up
  uint64_t prefix_hits = 0;     // ... and found
  uint64_t prompt_tokens = 0;   // run through the model
  uint64_t generated_tokens = 0;
  uint64_t flops = 0;
  uint64_t bytes = 0;
  uint64_t impossible_rows = 0;  // requests ended because no token was possible (NaN or infinite logits)
};

// After each step, on the step thread, for histograms.
struct StepReport {
  Duration duration{0};
  uint32_t tokens = 0;
  uint32_t sequences = 0;
  uint32_t streams = 0;                   // sequences that waited for their next token only
  Duration predicted{0};                  // zero: nothing is known yet
  std::optional<uint32_t> prompt_budget;  // prompt tokens that max_itl allowed; none when it had no say
  bool late = false;                      // took longer than max_itl while streams ran
};

class Engine {
 public:
  // `runner`, `pool` and `clock` outlive the engine. Starts the step thread.
  Engine(const EngineOptions& options, const KvLayout& layout, Runner* runner, BlockPool* pool, const Clock* clock,
         std::function<void(const StepReport&)> on_step = nullptr);
  ~Engine();  // cancels what runs, joins

  // Validates and queues. FAILED_PRECONDITION when the request can never fit (with the numbers), RESOURCE_EXHAUSTED
  // when the queue is full, UNAVAILABLE after Stop. On error the sink is never called and kDecode's blocks stay the
  // caller's.
  absl::Status Submit(EngineRequest request);
  // Ends the request at the next step with CANCELLED (no effect on an unknown id). kPrefill: the blocks still need
  // Release.
  void Cancel(uint64_t id);
  // Ends one choice (its stop string matched at the router); the others go on. It ends with FinishReason::kCancelled
  // and no further token.
  void CancelChoice(uint64_t id, uint32_t choice);
  // Gives a kPrefill request's blocks back once nothing reads them any more (its puts are flushed).
  void Release(uint64_t id);
  // No new work; returns when all requests have ended or the deadline passed (DEADLINE_EXCEEDED: what is left is
  // ended with UNAVAILABLE at the next step).
  absl::Status Drain(Duration timeout);

  EngineLoad load() const;
  // Time since the step thread last went round its loop while it had work; zero when idle. For liveness.
  Duration stalled_for() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton
