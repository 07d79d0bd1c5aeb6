#pragma once

// What the step thread does, without the thread: applies what came in, runs steps, tells the sinks. Everything but
// load() belongs to one thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/engine/engine.h"
#include "common/engine/inbox.h"
#include "common/engine/runner.h"
#include "common/engine/scheduler.h"
#include "common/kv/block_pool.h"

namespace baton {

class StepLoop {
 public:
  // All pointers outlive the loop.
  StepLoop(const SchedulerOptions& options, Runner* runner, BlockPool* pool, const Clock* clock, Inbox* inbox,
           std::function<void(const StepReport&)> on_step);
  ~StepLoop();  // gives back the blocks of held prompts; requests must have ended

  void Apply(Inbox::Batch batch);
  // Runs one step. False when nothing could run: no work, or all of it waits for blocks.
  bool Step();
  bool HasWork() const { return scheduler_.HasWork(); }
  void EndAll(const absl::Status& status);

  EngineLoad load() const;  // any thread

 private:
  using Requests = absl::flat_hash_map<uint64_t, std::unique_ptr<ActiveRequest>>;

  void Control(const Inbox::Control& control);
  void CancelChoices(ActiveRequest* request, uint64_t choices);
  void Start(std::span<ActiveRequest* const> requests);
  absl::Status MoveBlocks(const StepPlan& plan);
  absl::Status RunModel(const StepPlan& plan);
  void AddSamples(const ScheduledRun& run);
  void AddSample(Sequence* sequence);
  void TakeResults(const ScheduledRun& run, std::span<StepSample> samples);
  void TakeToken(Sequence* sequence, SampledToken token);
  void AnnounceProgress(ActiveRequest* request);
  // Sends the step's tokens of every touched request and ends those that are done or failed.
  void Deliver();
  void End(ActiveRequest* request, const absl::Status& status);
  void UpdateLoad();
  // Runs a sink's method; an exception fails the request.
  template <typename Call>
  void CallSink(ActiveRequest* request, const Call& call);

  Runner* const runner_;
  BlockPool* const pool_;
  const Clock* const clock_;
  Inbox* const inbox_;
  const std::function<void(const StepReport&)> on_step_;
  const uint32_t block_size_;
  const Duration max_itl_;

  Scheduler scheduler_;
  Requests requests_;
  absl::flat_hash_map<uint64_t, std::vector<BlockId>> held_;  // prompts of ended kPrefill requests, until Release

  // Of the step in progress; kept to reuse their memory.
  std::vector<StepSequence> batch_;
  std::vector<StepSample> samples_;
  std::vector<Sequence*> sampled_;  // whose they are
  std::vector<ActiveRequest*> touched_;

  EngineLoad totals_;  // the step thread's
  mutable absl::Mutex load_mutex_;
  EngineLoad load_ ABSL_GUARDED_BY(load_mutex_);
};

}  // namespace baton
