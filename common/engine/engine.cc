#include "common/engine/engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/engine/admission.h"
#include "common/engine/inbox.h"
#include "common/engine/step_loop.h"

namespace baton {
namespace {

// When all work waits for blocks that others hold (leases, transfers), nobody tells the engine that they came back.
constexpr absl::Duration kBlockedPoll = absl::Milliseconds(2);

SchedulerOptions MakeSchedulerOptions(const EngineOptions& options, const KvLayout& layout, const Runner& runner,
                                      const BlockPool& pool) {
  SchedulerOptions out;
  out.block_size = layout.block_size;
  out.step_limit = std::max<uint32_t>(1, runner.max_step_tokens());
  out.max_step_tokens = std::clamp<uint32_t>(options.max_step_tokens, 1, out.step_limit);
  out.max_batch = std::max<uint32_t>(1, std::min(options.max_batch, runner.max_batch()));
  out.chunk_tokens = std::max<uint32_t>(1, options.chunk_tokens);
  out.chunked_prefill = options.chunked_prefill;
  out.prefix_cache = options.prefix_cache;
  out.kv_cache = options.kv_cache;
  out.batching = options.batching;
  out.batch_timeout = options.batch_timeout;
  out.priority_aging = options.priority_aging;
  out.max_itl = options.max_itl;
  out.preemption = options.preemption;
  out.swap_slots = runner.swap_slots();
  out.watermark_blocks = static_cast<uint32_t>(std::clamp(options.watermark, 0.0, 1.0) * pool.size());
  return out;
}

}  // namespace

struct Engine::Impl {
  Impl(const EngineOptions& options, const KvLayout& layout, Runner* runner, BlockPool* pool, const Clock* clock,
       std::function<void(const StepReport&)> on_step)
      : limits{layout.block_size, pool->size(), runner->vocab_size(), options.max_model_len},
        clock(clock),
        inbox(options.queue_capacity),
        loop(MakeSchedulerOptions(options, layout, *runner, *pool), runner, pool, clock, &inbox, std::move(on_step)) {}

  void Run() {
    bool stepped = false;
    while (true) {
      busy = loop.HasWork();
      const absl::Duration wait = stepped          ? absl::ZeroDuration()
                                  : loop.HasWork() ? kBlockedPoll
                                                   : absl::InfiniteDuration();
      Inbox::Batch batch = inbox.Take(wait);
      last_round = clock->Now().time_since_epoch().count();
      busy = true;
      const bool stop = batch.stop;
      loop.Apply(std::move(batch));
      if (stop) break;
      stepped = loop.Step();
    }
    loop.EndAll(Cancelled("the engine was stopped"));
    busy = false;
  }

  const AdmissionLimits limits;
  const Clock* const clock;
  Inbox inbox;
  StepLoop loop;                       // the step thread's, except load()
  std::atomic<int64_t> last_round{0};  // steady nanoseconds
  std::atomic<bool> busy{false};
  std::thread thread;
};

Engine::Engine(const EngineOptions& options, const KvLayout& layout, Runner* runner, BlockPool* pool,
               const Clock* clock, std::function<void(const StepReport&)> on_step)
    : impl_(std::make_unique<Impl>(options, layout, runner, pool, clock, std::move(on_step))) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

Engine::~Engine() {
  impl_->inbox.Stop();
  impl_->thread.join();
}

absl::Status Engine::Submit(EngineRequest request) {
  BATON_RETURN_IF_ERROR(CheckRequest(request, impl_->limits));
  return impl_->inbox.Submit(std::move(request), impl_->clock->Now());
}

void Engine::Cancel(uint64_t id) { impl_->inbox.Cancel(id); }

void Engine::CancelChoice(uint64_t id, uint32_t choice) {
  if (choice < kMaxChoices) impl_->inbox.CancelChoice(id, choice);
}

void Engine::Release(uint64_t id) { impl_->inbox.Release(id); }

absl::Status Engine::Drain(Duration timeout) {
  impl_->inbox.Close();
  if (impl_->inbox.AwaitAllEnded(absl::FromChrono(timeout))) return absl::OkStatus();
  const uint32_t left = impl_->inbox.unended();
  impl_->inbox.CancelAll(Unavailable("the worker is shutting down"));
  return DeadlineExceeded("%d requests had not ended after %.3f s", left, Seconds(timeout));
}

EngineLoad Engine::load() const {
  EngineLoad load = impl_->loop.load();
  const Inbox::Queued queued = impl_->inbox.queued();
  load.waiting_requests += queued.requests;
  load.waiting_prompt_tokens += queued.prompt_tokens;
  return load;
}

Duration Engine::stalled_for() const {
  if (!impl_->busy) return Duration::zero();
  return impl_->clock->Now() - TimePoint(Duration(impl_->last_round));
}

}  // namespace baton
