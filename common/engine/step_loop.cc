#include "common/engine/step_loop.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/base/status.h"

namespace baton {
namespace {

// Foreign code (a sink, a runner, an allocation in either) may throw; the step thread goes on.
template <typename Call>
absl::Status Guarded(const char* what, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return Internal("%s threw: %s", what, error.what());
  } catch (...) {
    return Internal("%s threw an unknown exception", what);
  }
}

}  // namespace

StepLoop::StepLoop(const SchedulerOptions& options, Runner* runner, BlockPool* pool, const Clock* clock, Inbox* inbox,
                   std::function<void(const StepReport&)> on_step)
    : runner_(runner),
      pool_(pool),
      clock_(clock),
      inbox_(inbox),
      on_step_(std::move(on_step)),
      block_size_(options.block_size),
      max_itl_(options.max_itl),
      scheduler_(options, pool) {}

StepLoop::~StepLoop() {
  for (const auto& [id, blocks] : held_) pool_->Release(blocks);
}

template <typename Call>
void StepLoop::CallSink(ActiveRequest* request, const Call& call) {
  const absl::Status status = Guarded("the sink", [&] {
    call(*request->spec.sink);
    return absl::OkStatus();
  });
  if (request->failure.ok()) request->failure = status;
}

void StepLoop::Apply(Inbox::Batch batch) {
  for (Inbox::Arrival& arrival : batch.arrivals) {
    auto request = std::make_unique<ActiveRequest>();
    request->spec = std::move(arrival.request);
    request->submitted = arrival.submitted;
    scheduler_.Add(request.get());
    requests_.emplace(request->spec.id, std::move(request));
  }
  for (const Inbox::Control& control : batch.controls) Control(control);
  if (!batch.arrivals.empty() || !batch.controls.empty()) UpdateLoad();
}

void StepLoop::Control(const Inbox::Control& control) {
  if (control.release) {
    if (const auto held = held_.find(control.id); held != held_.end()) {
      pool_->Release(held->second);
      held_.erase(held);
      inbox_->Released(control.id);
      return;
    }
  }
  const auto entry = requests_.find(control.id);
  if (entry == requests_.end()) return;
  ActiveRequest* request = entry->second.get();
  request->release_asked = request->release_asked || control.release;
  if (!control.end.ok()) return End(request, control.end);
  CancelChoices(request, control.cancelled_choices);
  if (request->unfinished == 0) End(request, absl::OkStatus());
}

void StepLoop::CancelChoices(ActiveRequest* request, uint64_t choices) {
  for (const auto& sequence : request->sequences) {
    const uint32_t index = request->spec.choices[sequence->slot].index;
    if ((choices >> index & 1) && !sequence->ended) scheduler_.Finish(sequence.get());
  }
}

bool StepLoop::Step() {
  const TimePoint begin = clock_->Now();
  const StepPlan& plan = scheduler_.Schedule(begin);
  UpdateLoad();  // a step may take long
  if (const absl::Status moved = MoveBlocks(plan); !moved.ok()) {
    EndAll(Internal("copying KV blocks failed: %s", StatusMessage(moved)));  // nobody knows whose are sound
    return false;
  }
  if (plan.runs.empty()) return false;
  Start(plan.started);

  const Duration predicted = scheduler_.cost().Predict(plan.shape);
  const TimePoint model_begin = clock_->Now();
  const absl::Status status = RunModel(plan);
  touched_.clear();
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    ActiveRequest* request = plan.runs[i].sequence->request;
    if (std::find(touched_.begin(), touched_.end(), request) == touched_.end()) touched_.push_back(request);
    if (!status.ok()) {
      request->failure = Internal("model step failed: %s", StatusMessage(status));
    } else if (request->failure.ok()) {
      TakeResults(plan.runs[i], batch_[i].samples);
    }
  }
  Deliver();

  const Runner::StepWork work = status.ok() ? runner_->last_work() : Runner::StepWork{};
  ++totals_.steps;
  totals_.flops += work.flops;
  totals_.bytes += work.bytes;
  UpdateLoad();
  const TimePoint end = clock_->Now();
  if (status.ok()) scheduler_.cost().Observe(plan.shape, end - model_begin);
  if (on_step_) {
    StepReport report{end - begin, plan.tokens, static_cast<uint32_t>(plan.runs.size())};
    report.streams = plan.shape.decodes;
    report.predicted = predicted;
    report.prompt_budget = plan.prompt_budget;
    report.late = max_itl_ > Duration::zero() && report.streams > 0 && report.duration > max_itl_;
    Guarded("the step listener", [&] {
      on_step_(report);
      return absl::OkStatus();
    }).IgnoreError();
  }
  return true;
}

void StepLoop::Start(std::span<ActiveRequest* const> requests) {
  for (ActiveRequest* request : requests) {
    request->started = clock_->Now();
    if (request->spec.work == WorkKind::kDecode) request->first_token = request->started;
    CallSink(request, [&](EngineSink& sink) { sink.OnStarted(request->cached_tokens); });
    // A transfer of the cached blocks need not wait for the first chunk.
    if (request->spec.work == WorkKind::kPrefill && request->cached_tokens > 0) AnnounceProgress(request);
  }
}

absl::Status StepLoop::MoveBlocks(const StepPlan& plan) {
  if (plan.copies.empty()) return absl::OkStatus();
  const TimePoint begin = clock_->Now();
  uint32_t swapped = 0;
  const absl::Status status = Guarded("the runner", [&] {
    for (const BlockCopy& copy : plan.copies) {
      switch (copy.kind) {
        case BlockCopy::Kind::kWithinPool:
          runner_->CopyBlock(copy.from, copy.to);
          break;
        case BlockCopy::Kind::kSwapOut:
          runner_->SwapOut(copy.from, copy.to);
          ++swapped;
          break;
        case BlockCopy::Kind::kSwapIn:
          runner_->SwapIn(copy.from, copy.to);
          ++swapped;
          break;
      }
    }
    return absl::OkStatus();
  });
  if (swapped > 0) scheduler_.cost().ObserveSwap(swapped, clock_->Now() - begin);
  return status;
}

absl::Status StepLoop::RunModel(const StepPlan& plan) {
  batch_.clear();
  samples_.clear();
  sampled_.clear();
  return Guarded("the runner", [&] {
    size_t most = 0;
    for (const ScheduledRun& run : plan.runs) {
      const ActiveRequest& request = *run.sequence->request;
      most += request.forked ? 1 : request.sequences.size();
    }
    samples_.reserve(most);  // the batch points into it
    for (const ScheduledRun& run : plan.runs) {
      const Sequence& sequence = *run.sequence;
      const size_t first = samples_.size();
      AddSamples(run);
      batch_.push_back({.tokens = std::span(sequence.tokens).subspan(run.begin, run.end - run.begin),
                        .position = run.begin,
                        .blocks = sequence.table.blocks(),
                        .samples = std::span(samples_).subspan(first)});
    }
    return runner_->Step(batch_, {});
  });
}

// Choices that get a token from this run: the sequence's own, or all that share the prompt which it completes.
void StepLoop::AddSamples(const ScheduledRun& run) {
  ActiveRequest* request = run.sequence->request;
  if (request->forked) {
    if (run.wants_logits) AddSample(run.sequence);
    return;
  }
  if (run.end < request->prompt_size()) return;
  for (const auto& sequence : request->sequences) {
    if (!sequence->ended && request->spec.choices[sequence->slot].generated.empty()) AddSample(sequence.get());
  }
}

void StepLoop::AddSample(Sequence* sequence) {
  if (!sequence->sampler) {
    const EngineRequest& spec = sequence->request->spec;
    const ChoiceStart& choice = spec.choices[sequence->slot];
    // Whatever was generated before stands behind the prompt, also after a preemption.
    sequence->sampler.emplace(spec.sampling, choice.index, runner_->vocab_size(), spec.prompt, choice.generated);
  }
  samples_.push_back({.sampler = &*sequence->sampler});
  sampled_.push_back(sequence);
}

void StepLoop::TakeResults(const ScheduledRun& run, std::span<StepSample> samples) {
  Sequence* sequence = run.sequence;
  ActiveRequest* request = sequence->request;
  const bool is_decode = run.end - run.begin == 1 && run.begin >= request->prompt_size();
  if (!is_decode) totals_.prompt_tokens += run.end - run.begin;
  scheduler_.Advance(run);
  if (sequence->slot == 0 && (!request->forked || request->sequences.size() == 1)) AnnounceProgress(request);

  const bool forks = !request->forked && request->spec.work != WorkKind::kPrefill;
  if (forks && sequence->computed == request->prompt_size()) scheduler_.Fork(request);
  for (StepSample& sample : samples) {
    TakeToken(sampled_[static_cast<size_t>(&sample - samples_.data())], std::move(sample.token));
    if (!request->failure.ok()) return;
  }
}

void StepLoop::TakeToken(Sequence* sequence, SampledToken token) {
  ActiveRequest* request = sequence->request;
  const EngineRequest& spec = request->spec;
  const ChoiceStart& choice = spec.choices[sequence->slot];
  if (token.finish == FinishReason::kError) {
    ++totals_.impossible_rows;
    request->failure = Internal("no token is possible at position %d of choice %d: the logits are not finite",
                                sequence->computed, choice.index);
    return;
  }
  const uint32_t index = sequence->sampler->generated() - 1;
  ++totals_.generated_tokens;
  if (!request->first_token) request->first_token = clock_->Now();
  // Sound logits vouch for the KV they were computed from; before that nobody may find it.
  const bool is_prefill = spec.work == WorkKind::kPrefill;
  scheduler_.PublishFull(is_prefill ? &request->root() : sequence);
  const bool finished = is_prefill || token.finish != FinishReason::kNone;
  if (!finished) scheduler_.Append(sequence, token.id);
  request->step_tokens.push_back({choice.index, index, std::move(token)});
  if (finished) scheduler_.Finish(sequence);
}

void StepLoop::AnnounceProgress(ActiveRequest* request) {
  const uint32_t done = std::min(request->root().computed, request->prompt_size());
  if (done <= request->announced) return;  // a preempted prompt runs again
  request->announced = done;
  const size_t blocks = (request->spec.prompt.size() + block_size_ - 1) / block_size_;
  CallSink(request,
           [&](EngineSink& sink) { sink.OnPromptProgress(done, request->root().table.blocks().first(blocks)); });
}

void StepLoop::Deliver() {
  for (ActiveRequest* request : touched_) {
    if (!request->step_tokens.empty()) {
      CallSink(request, [&](EngineSink& sink) { sink.OnTokens(request->step_tokens); });
      request->step_tokens.clear();
    }
    if (!request->failure.ok()) {
      End(request, request->failure);
    } else if (request->unfinished == 0) {
      End(request, absl::OkStatus());
    }
  }
}

void StepLoop::End(ActiveRequest* request, const absl::Status& status) {
  const uint64_t id = request->spec.id;
  const TimePoint now = clock_->Now();
  EngineTimings timings;
  timings.queue = request->started.value_or(now) - request->submitted;
  if (request->started) timings.prefill = request->first_token.value_or(now) - *request->started;
  if (request->first_token) timings.decode = now - *request->first_token;
  timings.cached_tokens = request->cached_tokens;
  timings.preemptions = request->preemptions;

  // A transfer may still read what was announced, whatever became of the request.
  const bool hold = request->spec.work == WorkKind::kPrefill && request->announced > 0 && !request->release_asked;
  if (hold) held_.emplace(id, request->root().table.Take());
  scheduler_.Remove(request);
  UpdateLoad();
  CallSink(request, [&](EngineSink& sink) { sink.OnEnd(status, timings); });
  requests_.erase(id);
  inbox_->Ended(id, hold);
}

void StepLoop::EndAll(const absl::Status& status) {
  while (!requests_.empty()) End(requests_.begin()->second.get(), status);
}

void StepLoop::UpdateLoad() {
  const SchedulerCounts counts = scheduler_.counts();
  totals_.waiting_requests = counts.waiting_requests;
  totals_.waiting_prompt_tokens = counts.waiting_tokens;
  totals_.running_sequences = counts.running_sequences;
  totals_.preemptions = counts.preemptions;
  totals_.swap_preemptions = counts.swap_preemptions;
  totals_.swapped_out_blocks = counts.swapped_out_blocks;
  totals_.swapped_in_blocks = counts.swapped_in_blocks;
  totals_.swap_slots_used = counts.swap_slots_used;
  totals_.prefix_queries = counts.prefix_queries;
  totals_.prefix_hits = counts.prefix_hits;
  absl::MutexLock lock(&load_mutex_);
  load_ = totals_;
}

EngineLoad StepLoop::load() const {
  absl::MutexLock lock(&load_mutex_);
  return load_;
}

}  // namespace baton
