#include "services/cli/bench/local_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "common/base/status.h"
#include "common/engine/cpu_runner.h"

namespace baton::cli {
namespace {

// Writes a trace from the step thread. The waiting thread reads it after OnEnd.
class TracingSink final : public EngineSink {
 public:
  TracingSink(RequestTrace* trace, TimePoint start, std::atomic<uint64_t>* kept_tokens, absl::BlockingCounter* running)
      : trace_(trace), start_(start), kept_tokens_(kept_tokens), running_(running) {}

  void OnStarted(uint32_t cached_tokens) override { trace_->cached_tokens = cached_tokens; }
  void OnPromptProgress(uint32_t tokens_done, std::span<const BlockId>) override { Keep(tokens_done); }
  void OnTokens(std::span<const ChoiceToken> tokens) override {
    const double now = Seconds(SteadyClock().Now() - start_);
    for (const ChoiceToken& token : tokens) {
      trace_->token_times.push_back(now);
      trace_->ids.push_back(token.token.id);
    }
    Keep(trace_->prompt_tokens + trace_->ids.size() - 1);  // the last one's KV comes with the next step
  }
  void OnEnd(const absl::Status& status, const EngineTimings&) override {
    trace_->status = status;
    trace_->end = Seconds(SteadyClock().Now() - start_);
    Keep(0);
    running_->DecrementCount();
  }

 private:
  // So many of this request's tokens have KV in the pool.
  void Keep(uint64_t tokens) {
    *kept_tokens_ += tokens - kept_;
    kept_ = tokens;
  }

  RequestTrace* const trace_;
  const TimePoint start_;
  std::atomic<uint64_t>* const kept_tokens_;  // of all requests
  uint64_t kept_ = 0;
  absl::BlockingCounter* const running_;
};

}  // namespace

struct LocalEngine::Impl {
  SteadyClock clock;
  AlignedBuffer memory;
  std::unique_ptr<BlockPool> pool;
  std::unique_ptr<CpuRunner> runner;
  std::atomic<uint32_t> most_sequences{0};
  std::atomic<uint64_t> kept_tokens{0};                // now, by running sequences
  std::atomic<uint64_t> steps{0}, kept_over_steps{0};  // of a run
  uint64_t pool_tokens = 0;
  uint64_t next_id = 1;
  std::unique_ptr<Engine> engine;  // destroyed first
};

LocalEngine::LocalEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalEngine::~LocalEngine() = default;

absl::StatusOr<std::unique_ptr<LocalEngine>> LocalEngine::Create(std::shared_ptr<const CpuWeights> weights,
                                                                 const LocalEngineOptions& options) {
  auto impl = std::make_unique<Impl>();
  const DType kv_dtype = weights->config.dtype == DType::kF32 || weights->config.dtype == DType::kBF16
                             ? weights->config.dtype
                             : DType::kF16;
  const KvLayout layout = MakeKvLayout(weights->config, kv_dtype);
  const uint32_t blocks = std::max<uint32_t>(4, layout.BlocksFor(options.pool_tokens));
  try {
    impl->memory = AlignedBuffer(blocks * layout.BytesPerBlock());
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("no memory for %d KV blocks of %d bytes", blocks, layout.BytesPerBlock());
  }
  std::memset(impl->memory.data(), 0, impl->memory.size());  // touched now, not in a measurement
  impl->pool = std::make_unique<BlockPool>(blocks);
  impl->pool_tokens = uint64_t{blocks} * layout.block_size;

  EngineOptions engine = options.engine;
  engine.max_model_len = weights->config.max_length;
  CpuRunnerOptions runner;
  runner.threads = options.threads;
  runner.max_batch = engine.max_batch;
  runner.max_step_tokens = engine.max_step_tokens;
  BATON_ASSIGN_OR_RETURN(impl->runner,
                         CpuRunner::Create(weights, layout, {impl->memory.data(), impl->memory.size()}, runner));
  impl->engine = std::make_unique<Engine>(
      engine, layout, impl->runner.get(), impl->pool.get(), &impl->clock, [impl = impl.get()](const StepReport& step) {
        impl->most_sequences = std::max(impl->most_sequences.load(), step.sequences);
        impl->kept_over_steps += impl->kept_tokens;
        ++impl->steps;
      });
  return std::unique_ptr<LocalEngine>(new LocalEngine(std::move(impl)));
}

std::vector<RequestTrace> LocalEngine::Run(std::span<const BenchRequest> requests) {
  impl_->most_sequences = 0;
  impl_->steps = impl_->kept_over_steps = 0;
  std::vector<RequestTrace> traces(requests.size());
  absl::BlockingCounter running(static_cast<int>(requests.size()));
  const TimePoint start = impl_->clock.Now();
  for (size_t i = 0; i < requests.size(); ++i) {
    const BenchRequest& request = requests[i];
    std::this_thread::sleep_until(start +
                                  std::chrono::duration_cast<Duration>(std::chrono::duration<double>(request.arrival)));
    RequestTrace& trace = traces[i];
    trace.arrival = request.arrival;
    trace.prompt_tokens = static_cast<uint32_t>(request.prompt.size());
    EngineRequest work;
    work.id = impl_->next_id++;
    work.prompt = request.prompt;
    work.choices = {ChoiceStart{}};
    work.sampling.max_tokens = request.max_tokens;
    work.sampling.temperature = 0;
    work.sampling.ignore_eos = true;
    work.sink = std::make_shared<TracingSink>(&trace, start, &impl_->kept_tokens, &running);
    trace.status = impl_->engine->Submit(std::move(work));
    if (!trace.status.ok()) running.DecrementCount();
  }
  running.Wait();
  return traces;
}

EngineLoad LocalEngine::load() const { return impl_->engine->load(); }
uint32_t LocalEngine::vocab() const { return impl_->runner->vocab_size(); }
void LocalEngine::DropCache() { impl_->pool->DropCache(); }
uint32_t LocalEngine::pool_blocks() const { return impl_->pool->size(); }
uint32_t LocalEngine::most_sequences() const { return impl_->most_sequences; }
double LocalEngine::mean_used_share() const {
  const uint64_t steps = impl_->steps;
  return steps == 0 ? 0 : static_cast<double>(impl_->kept_over_steps) / static_cast<double>(steps * impl_->pool_tokens);
}

RequestTrace RunOne(LocalEngine& engine, std::vector<TokenId> prompt, uint32_t max_tokens) {
  const BenchRequest request{0, std::move(prompt), max_tokens};
  return engine.Run({&request, 1}).front();
}

}  // namespace baton::cli
