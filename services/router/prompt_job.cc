#include "services/router/prompt_job.h"

#include <algorithm>

#include "common/base/block_hash.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/rpc/convert.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;

constexpr Duration kFirstReserveRetry = std::chrono::milliseconds(20);
constexpr Duration kLastReserveRetry = std::chrono::milliseconds(500);
constexpr Duration kStreamPatience = std::chrono::seconds(2);

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Of a worker's status. Its calls carry no deadline and only attempts that were dropped are cancelled, so the first two
// are about the worker: a lease that ran out, a server that shut down.
bool WorthAnotherPair(grpc::StatusCode code) {
  return code == grpc::StatusCode::DEADLINE_EXCEEDED || code == grpc::StatusCode::CANCELLED ||
         code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::ABORTED ||
         code == grpc::StatusCode::DATA_LOSS;
}

}  // namespace

class PromptJob::PrefillSide final : public ClientStreamHandler<PrefillResponse> {
 public:
  PrefillSide(std::shared_ptr<PromptJob> job, uint64_t attempt) : job_(std::move(job)), attempt_(attempt) {}
  void OnMessage(PrefillResponse message) override { job_->OnPrefill(attempt_, std::move(message)); }
  void OnEnd(const grpc::Status& status) override { job_->OnPrefillEnd(attempt_, status); }

 private:
  const std::shared_ptr<PromptJob> job_;
  const uint64_t attempt_;
};

class PromptJob::DecodeSide final : public ClientStreamHandler<DecodeResponse> {
 public:
  DecodeSide(std::shared_ptr<PromptJob> job, uint64_t attempt) : job_(std::move(job)), attempt_(attempt) {}
  void OnMessage(DecodeResponse message) override { job_->OnDecode(attempt_, std::move(message)); }
  void OnEnd(const grpc::Status& status) override { job_->OnDecodeEnd(attempt_, status); }

 private:
  const std::shared_ptr<PromptJob> job_;
  const uint64_t attempt_;
};

PromptJob::PromptJob(const RouterContext& context, PromptSpec spec, PromptCallbacks callbacks)
    : context_(context),
      spec_(std::move(spec)),
      metrics_(context_.metrics->Model(spec_.model->name)),
      trace_(spec_.trace.spans ? spec_.trace.context.Child() : spec_.trace.context),
      chain_(HashBlockChain(spec_.tokens, spec_.model->block_size, spec_.cache_salt)),
      callbacks_(std::move(callbacks)) {
  for (uint32_t i = 0; i < spec_.choices; ++i) {
    choices_.emplace_back(spec_.prompt_index, i, spec_.model->tokenizer, spec_.output,
                          spec_.sampling.logprobs.has_value());
  }
  last_token_.resize(spec_.choices);
  report_.set_prompt_index(spec_.prompt_index);
  report_.mutable_usage()->set_prompt_tokens(static_cast<uint32_t>(spec_.tokens.size()));
}

PromptJob::~PromptJob() = default;

void PromptJob::Run() {
  absl::MutexLock lock(&mutex_);
  if (ended_) return;
  marks_.admitted = context_.clock->Now();
  StartAttempt();
}

void PromptJob::Cancel(const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  End(status);
}

// ---- attempts

void PromptJob::AvoidFailedPairs(std::vector<std::shared_ptr<WorkerLink>>& links, std::vector<PairingCandidate>& views,
                                 bool last_resort) const {
  const auto failed = [&](const std::shared_ptr<WorkerLink>& link) {
    return avoided_.contains(link->state().identity.incarnation());
  };
  if (last_resort && std::all_of(links.begin(), links.end(), failed)) return;
  for (size_t i = links.size(); i-- > 0;) {
    if (!failed(links[i])) continue;
    links.erase(links.begin() + static_cast<ptrdiff_t>(i));
    views.erase(views.begin() + static_cast<ptrdiff_t>(i));
  }
}

grpc::Status PromptJob::Pair() {
  const bool resume = std::any_of(choices_.begin(), choices_.end(),
                                  [](const ChoiceOutput& choice) { return choice.token_count() > 0; });
  std::vector<std::shared_ptr<WorkerLink>> prefill, decode;
  std::vector<PairingCandidate> prefill_views, decode_views;
  const auto collect = [&](internal::v1::Role role, auto& links, auto& views) {
    for (auto& link : context_.directory->Ready(*spec_.model, role)) {
      if (excluded_.contains(link->state().identity.incarnation())) continue;
      views.push_back(link->Candidate(chain_));
      links.push_back(std::move(link));
    }
  };
  collect(internal::v1::ROLE_PREFILL, prefill, prefill_views);
  collect(internal::v1::ROLE_DECODE, decode, decode_views);
  AvoidFailedPairs(prefill, prefill_views, /*last_resort=*/false);  // a decode worker can read the prompt
  AvoidFailedPairs(decode, decode_views, /*last_resort=*/true);

  PairingRequest request;
  request.prompt_tokens = static_cast<uint32_t>(spec_.tokens.size());
  request.choices = spec_.choices;
  request.max_tokens = spec_.sampling.max_tokens;
  request.block_size = spec_.model->block_size;
  request.numerics = spec_.model->numerics;
  request.resume = resume;
  request.policy = context_.config->policy;
  request.local_prefill_tokens = context_.config->local_prefill_tokens;
  const PairingDecision decision = ChoosePair(request, prefill_views, decode_views);
  metrics_.OnDecision(decision.reason);
  report_.mutable_route()->set_reason(std::string(PairingReasonName(decision.reason)));
  if (decision.reason == PairingReason::kPoolTooSmall && attempts_ == 1) {
    uint32_t largest = 0;
    for (const PairingCandidate& worker : decode_views) largest = std::max(largest, worker.pool_blocks);
    return ToGrpc(FailedPrecondition(
        "prompts[%d]: %d prompt tokens and max_tokens %d need %d KV blocks of %d tokens, the largest pool has %d",
        spec_.prompt_index, request.prompt_tokens, request.max_tokens, BlocksNeeded(request), request.block_size,
        largest));
  }
  if (!decision.prefill && !decision.decode) {
    const std::string why = last_failure_.ok() ? "" : "; the last attempt ended with: " + last_failure_.error_message();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE,
                        "no pair of workers is ready for model '" + spec_.model->name + "'" + why);
  }

  if (decision.prefill) {
    attempt_.prefill = prefill[*decision.prefill];
    attempt_.prefill_incarnation = attempt_.prefill->state().identity.incarnation();
    attempt_.prefill_work = {.prompt_tokens = request.prompt_tokens};
    attempt_.prefill->AddWork(attempt_.prefill_work);
    // Decode workers are the model's own.
    if (prefill_views[*decision.prefill].numerics != request.numerics) metrics_.OnMixedNumerics();
  }
  if (decision.decode) {
    attempt_.decode = decode[*decision.decode];
    attempt_.decode_incarnation = attempt_.decode->state().identity.incarnation();
    attempt_.decode_work = {.blocks = static_cast<uint32_t>(BlocksOfAllChoices(request)), .sequences = request.choices};
    attempt_.decode->AddWork(attempt_.decode_work);
  }
  auto* route = report_.mutable_route();
  route->set_prefill_worker((attempt_.prefill ? attempt_.prefill : attempt_.decode)->address());
  route->set_decode_worker(attempt_.decode ? attempt_.decode->address() : "");
  return grpc::Status::OK;
}

void PromptJob::StartAttempt() {
  ++attempts_;
  report_.mutable_route()->set_attempts(attempts_);
  attempt_ = Attempt{};
  attempt_.id = RandomU64() | 1;
  if (const grpc::Status paired = Pair(); !paired.ok()) {
    attempt_.id = 0;
    End(paired);
    return;
  }
  if (!marks_.first_token) marks_.sent = context_.clock->Now();
  attempt_.work = MakeWork();
  if (attempt_.prefill) {
    OpenPrefill();
  } else {
    OpenDecode(true);
  }
}

internal::v1::Work PromptJob::MakeWork() const {
  internal::v1::Work work;
  work.set_request_id(spec_.request_id);
  work.set_attempt(attempt_.id);
  work.mutable_prompt()->Assign(spec_.tokens.begin(), spec_.tokens.end());
  for (const ChoiceOutput& choice : choices_) {
    if (choice.ended()) continue;
    auto* start = work.add_choices();
    start->set_index(choice.index());
    start->mutable_generated()->Assign(choice.tokens().begin(), choice.tokens().end());
  }
  ToProto(spec_.sampling, work.mutable_sampling());
  work.set_priority(spec_.priority);
  work.set_waited_seconds(Seconds(context_.clock->Now() - spec_.arrived));
  work.set_cache_salt(spec_.cache_salt);
  work.set_traceparent(trace_.traceparent());
  work.set_tracestate(trace_.state);
  return work;
}

void PromptJob::OpenPrefill() {
  attempt_.prefill_stream = PrefillStream::Start(std::make_shared<PrefillSide>(shared_from_this(), attempt_.id),
                                                 [&](grpc::ClientContext* context, auto* reactor) {
                                                   attempt_.prefill->prefill().async()->Prefill(context, reactor);
                                                 });
  PrefillRequest start;
  *start.mutable_start() = attempt_.work;
  start.mutable_start()->set_worker_incarnation(attempt_.prefill_incarnation);
  attempt_.prefill_stream->Send(std::move(start));
  if (!attempt_.decode) {
    PrefillRequest no_lease;
    no_lease.mutable_no_lease();
    attempt_.prefill_stream->Send(std::move(no_lease));
  }
}

void PromptJob::OpenDecode(bool local) {
  attempt_.decode_stream = DecodeStream::Start(std::make_shared<DecodeSide>(shared_from_this(), attempt_.id),
                                               [&](grpc::ClientContext* context, auto* reactor) {
                                                 attempt_.decode->decode().async()->Decode(context, reactor);
                                               });
  DecodeRequest request;
  internal::v1::Work* work = local ? request.mutable_local() : request.mutable_reserve();
  *work = attempt_.work;
  work->set_worker_incarnation(attempt_.decode_incarnation);
  attempt_.decode_stream->Send(std::move(request));
  // Choices that a stop text ended since the attempt began, while no call was there to be told.
  for (const internal::v1::ChoiceStart& start : attempt_.work.choices()) {
    if (!choices_[start.index()].ended()) continue;
    DecodeRequest stop;
    stop.mutable_stop_choice()->set_choice(start.index());
    attempt_.decode_stream->Send(std::move(stop));
  }
  attempt_.reserve_sent = context_.clock->Now();
  marks_.reserve_sent = attempt_.reserve_sent;
}

void PromptJob::CancelTimer() {
  if (attempt_.timer) context_.timers->Cancel(*attempt_.timer);
  attempt_.timer.reset();
}

void PromptJob::ScheduleReserveRetry() {
  CancelTimer();
  const Duration wait = std::min(kLastReserveRetry, kFirstReserveRetry * (1u << std::min(attempt_.reserve_tries, 5u)));
  ++attempt_.reserve_tries;
  attempt_.timer = context_.timers->Schedule(wait, [weak = weak_from_this(), id = attempt_.id] {
    const auto self = weak.lock();
    if (!self) return;
    absl::MutexLock lock(&self->mutex_);
    if (self->attempt_.id == id) self->OpenDecode(false);
  });
}

void PromptJob::ScheduleRenewal() {
  CancelTimer();
  attempt_.timer = context_.timers->Schedule(attempt_.renew_every, [weak = weak_from_this(), id = attempt_.id] {
    const auto self = weak.lock();
    if (!self) return;
    absl::MutexLock lock(&self->mutex_);
    Attempt& attempt = self->attempt_;
    // Only while the prefill call lives: a lease whose writer is lost must run out.
    if (attempt.id != id || attempt.committed || !attempt.prefill_stream || !attempt.decode_stream) return;
    DecodeRequest renew;
    renew.mutable_renew();
    attempt.decode_stream->Send(std::move(renew));
    self->ScheduleRenewal();
  });
}

// ---- what workers say

void PromptJob::OnStarted(uint32_t cached_tokens) {
  if (!marks_.first_token) marks_.started = context_.clock->Now();
  report_.mutable_usage()->set_cached_prompt_tokens(cached_tokens);
  attempt_.started = true;
}

void PromptJob::OnPrefill(uint64_t attempt, PrefillResponse message) {
  absl::MutexLock lock(&mutex_);
  if (attempt != attempt_.id || message.attempt() != attempt) return;
  switch (message.event_case()) {
    case PrefillResponse::kStarted:
      OnStarted(message.started().cached_tokens());
      if (attempt_.decode) OpenDecode(false);
      return;
    case PrefillResponse::kTokens:
      attempt_.first_tokens = true;
      AcceptTokens(message.tokens().tokens());
      for (const internal::v1::DecodeTokens& tokens : std::exchange(attempt_.early, {})) {
        if (attempt_.id == attempt) AcceptTokens(tokens.tokens());
      }
      return;
    case PrefillResponse::kDone:
      return OnPrefillDone(message.done());
    case PrefillResponse::EVENT_NOT_SET:
      return;
  }
}

void PromptJob::OnPrefillDone(const internal::v1::PrefillDone& done) {
  attempt_.prefill_done = true;
  marks_.prefill_compute = FromSeconds(done.engine().prefill_seconds());
  auto* route = report_.mutable_route();
  route->set_kv_bytes(route->kv_bytes() + done.bytes());
  if (done.bytes() > 0) route->set_kv_transport(done.transport());
  report_.mutable_timings()->set_transfer_seconds(done.transfer_seconds());
  if (!attempt_.decode || done.outcome() == internal::v1::HANDOFF_OUTCOME_COMMITTED) return;
  if (done.fence_owed() && attempt_.decode_stream) {
    DecodeRequest fence;
    fence.mutable_fence()->set_reason("relayed: " + done.reason());
    attempt_.decode_stream->Send(std::move(fence));
    attempt_.fence_relayed = true;
  }
  if (AllEnded() || attempt_.committed) return;  // the decode stream's word decides
  FailAttempt(grpc::Status(grpc::StatusCode::ABORTED, "handoff failed: " + done.reason()), 0);
}

void PromptJob::OnPrefillEnd(uint64_t attempt, const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (attempt != attempt_.id) return;
  attempt_.prefill_stream.reset();
  if (AllEnded()) return AwaitStreams();
  if (status.ok() && attempt_.prefill_done) return;
  if (attempt_.committed && attempt_.first_tokens) return;  // the worker is not needed any more
  FailAttempt(
      status.ok() ? grpc::Status(grpc::StatusCode::INTERNAL, "the prefill worker ended the call early") : status,
      attempt_.prefill_incarnation);
}

void PromptJob::OnDecode(uint64_t attempt, DecodeResponse message) {
  absl::MutexLock lock(&mutex_);
  if (attempt != attempt_.id || message.attempt() != attempt) return;
  switch (message.event_case()) {
    case DecodeResponse::kReserved: {
      attempt_.reserved = true;
      report_.mutable_timings()->set_reserve_seconds(Seconds(context_.clock->Now() - attempt_.reserve_sent));
      if (message.reserved().cached_tokens() > report_.usage().cached_prompt_tokens()) {
        report_.mutable_usage()->set_cached_prompt_tokens(message.reserved().cached_tokens());
      }
      if (attempt_.prefill_stream) {
        PrefillRequest lease;
        lease.mutable_lease()->set_offer(message.reserved().offer());
        attempt_.prefill_stream->Send(std::move(lease));
      }
      attempt_.renew_every = std::chrono::duration_cast<Duration>(
          std::chrono::duration<double>(std::max(0.02, message.reserved().lease_seconds() / 3)));
      ScheduleRenewal();
      return;
    }
    case DecodeResponse::kCommitted:
      attempt_.committed = true;
      marks_.committed = context_.clock->Now();
      SettleDetokenize();
      CancelTimer();
      return;
    case DecodeResponse::kStarted:
      return OnStarted(message.started().cached_tokens());
    case DecodeResponse::kTokens:
      if (attempt_.prefill && !attempt_.first_tokens) {
        attempt_.early.push_back(std::move(*message.mutable_tokens()));
        return;
      }
      return AcceptTokens(message.tokens().tokens());
    case DecodeResponse::kDone:
      if (attempt_.prefill) {
        marks_.decode_queue = FromSeconds(message.done().engine().queue_seconds());
      } else if (marks_.prefill_compute == Duration::zero()) {  // a resume's is part of decode
        marks_.prefill_compute = FromSeconds(message.done().engine().prefill_seconds());
      }
      return;
    case DecodeResponse::EVENT_NOT_SET:
      return;
  }
}

void PromptJob::OnDecodeEnd(uint64_t attempt, const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (attempt != attempt_.id) return;
  attempt_.decode_stream.reset();
  if (AllEnded()) return AwaitStreams();
  const bool reserving = attempt_.prefill && !attempt_.reserved;
  if (reserving && status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) return ScheduleReserveRetry();
  // It has said everything; what is missing is on its way from the prefill worker.
  if (status.ok() && attempt_.prefill_stream && !attempt_.first_tokens) return;
  FailAttempt(status.ok() ? grpc::Status(grpc::StatusCode::INTERNAL, "the decode worker ended the call early") : status,
              attempt_.decode_incarnation);
}

void PromptJob::AcceptTokens(const google::protobuf::RepeatedPtrField<internal::v1::Token>& tokens) {
  const TimePoint now = context_.clock->Now();
  SettleDetokenize();
  std::vector<v1::ChoiceDelta> deltas;
  for (const internal::v1::Token& token : tokens) {
    if (token.choice() >= choices_.size()) continue;
    ChoiceOutput& choice = choices_[token.choice()];
    auto accepted = choice.Accept(token.index(), FromProto(token));
    if (!accepted.ok()) {
      context_.log->Error("a worker's token cannot be used",
                          {{"request_id", spec_.request_id}, {"error", std::string(accepted.status().message())}});
      End(grpc::Status(grpc::StatusCode::INTERNAL, std::string(accepted.status().message())));
      return;
    }
    if (!accepted->fresh) continue;
    if (!marks_.first_token) {
      marks_.first_token = now;
      metrics_.OnFirstToken(now - spec_.arrived);
      report_.mutable_timings()->set_time_to_first_token_seconds(Seconds(now - spec_.arrived));
    }
    if (choice.token_count() > 1) metrics_.OnTokenGap(now - last_token_[token.choice()]);
    last_token_[token.choice()] = now;
    marks_.last_token = now;
    if (accepted->stopped_by_text && attempt_.decode_stream) {
      DecodeRequest stop;
      stop.mutable_stop_choice()->set_choice(choice.index());
      attempt_.decode_stream->Send(std::move(stop));
    }
    if (!accepted->delta) continue;
    if (report_.timings().time_to_first_text_seconds() == 0 && !accepted->delta->text().empty()) {
      metrics_.OnFirstText(now - spec_.arrived);
      report_.mutable_timings()->set_time_to_first_text_seconds(Seconds(now - spec_.arrived));
    }
    deltas.push_back(*std::move(accepted->delta));
  }
  marks_.detokenize_last = context_.clock->Now() - now;
  if (!deltas.empty()) callbacks_.on_deltas(std::move(deltas));
  if (AllEnded()) AwaitStreams();
}

void PromptJob::SettleDetokenize() {
  (attempt_.prefill && !attempt_.committed ? marks_.detokenize_tail : marks_.detokenize_decode) +=
      std::exchange(marks_.detokenize_last, Duration::zero());
}

// ---- ends

bool PromptJob::AllEnded() const {
  return std::all_of(choices_.begin(), choices_.end(), [](const ChoiceOutput& choice) { return choice.ended(); });
}

void PromptJob::AwaitStreams() {
  if (ended_) return;
  // A reservation that never came to be needs no end either.
  const bool reserving = attempt_.prefill && attempt_.decode && !attempt_.decode_stream && !attempt_.reserved;
  if (!attempt_.prefill_stream && !attempt_.decode_stream) return End(grpc::Status::OK);
  if (reserving && attempt_.prefill_stream) return End(grpc::Status::OK);
  if (awaiting_streams_) return;
  awaiting_streams_ = true;
  CancelTimer();
  attempt_.timer = context_.timers->Schedule(kStreamPatience, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    absl::MutexLock lock(&self->mutex_);
    self->End(grpc::Status::OK);
  });
}

void PromptJob::FailAttempt(const grpc::Status& status, uint64_t lost_incarnation) {
  context_.log->Warning("attempt failed", {{"request_id", spec_.request_id},
                                           {"trace_id", trace_.trace_id_hex()},
                                           {"attempt", attempt_.id},
                                           {"prefill_worker", attempt_.prefill ? attempt_.prefill->address() : ""},
                                           {"decode_worker", attempt_.decode ? attempt_.decode->address() : ""},
                                           {"code", CodeName(status.error_code())},
                                           {"error", status.error_message()}});
  metrics_.OnAttemptFailure(status);
  last_failure_ = status;
  // A handoff that failed says that one of the two is bad, not which.
  if (status.error_code() == grpc::StatusCode::ABORTED && attempt_.prefill) {
    avoided_.insert(attempt_.prefill_incarnation);
    avoided_.insert(attempt_.decode_incarnation);
  }
  const bool lost = status.error_code() == grpc::StatusCode::UNAVAILABLE && lost_incarnation != 0;
  if (lost) excluded_.insert(lost_incarnation);
  if (lost && attempt_.started) ++deaths_;
  if (!WorthAnotherPair(status.error_code())) return End(status);
  if (deaths_ >= 2) {
    return End(grpc::Status(grpc::StatusCode::INTERNAL,
                            "two workers were lost in turn while they served this request; it is not tried again"));
  }
  if (attempts_ >= context_.config->max_attempts) {
    return End(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                            std::to_string(attempts_) +
                                " attempts failed, the most that are made; the last one: " + status.error_message()));
  }
  DropAttempt();
  marks_.first_token ? metrics_.OnResume() : metrics_.OnRetry();
  StartAttempt();
}

void PromptJob::DropAttempt() {
  CancelTimer();
  if (attempt_.prefill_stream) attempt_.prefill_stream->Cancel();
  if (attempt_.decode_stream && attempt_.fence_relayed) {
    // A cancel would overtake the fence. It ends the lease, and so the call.
    context_.timers->Schedule(kStreamPatience, [weak = std::weak_ptr<DecodeStream>(attempt_.decode_stream)] {
      if (const auto stream = weak.lock()) stream->Cancel();
    });
  } else if (attempt_.decode_stream) {
    attempt_.decode_stream->Cancel();
  }
  if (attempt_.prefill) attempt_.prefill->RemoveWork(attempt_.prefill_work);
  if (attempt_.decode) attempt_.decode->RemoveWork(attempt_.decode_work);
  attempt_ = Attempt{};
}

void PromptJob::End(const grpc::Status& status) {
  if (ended_) return;
  ended_ = true;
  DropAttempt();
  FinishReport();
  metrics_.OnPromptEnd(status, report_);
  AddPromptSpans(spec_.trace, trace_, report_, spec_.arrived, marks_.reserve_sent.value_or(spec_.arrived),
                 status.ok() ? "" : status.error_message());
  const PromptCallbacks callbacks = std::exchange(callbacks_, {});
  callbacks.on_end(status, report_);
}

void PromptJob::FinishReport() {
  const TimePoint end = context_.clock->Now();
  TimePoint last = spec_.arrived;
  // The stage that ends at `mark`; every stage starts where the one before ended, so that they add up to the total.
  const auto stage = [&](std::optional<TimePoint> mark) {
    if (!mark || *mark < last) return Duration::zero();
    return *mark - std::exchange(last, *mark);
  };
  // Takes what is known to have been spent on something else out of a stage; never more than there is.
  const auto take = [](Duration& from, Duration part) {
    part = std::clamp(part, Duration::zero(), from);
    from -= part;
    return part;
  };
  v1::Timings& timings = *report_.mutable_timings();
  timings.set_tokenize_seconds(Seconds(stage(spec_.tokenized)));
  timings.set_queue_seconds(Seconds(stage(marks_.admitted)));
  timings.set_pair_seconds(Seconds(stage(marks_.sent)));
  timings.set_prefill_queue_seconds(Seconds(stage(marks_.started)));
  Duration first = stage(marks_.first_token);
  timings.set_prefill_seconds(Seconds(take(first, marks_.prefill_compute)));
  timings.set_first_token_seconds(Seconds(first));
  Duration tail = stage(marks_.committed), decode = stage(marks_.last_token), finish = stage(end);
  const Duration detokenize = take(tail, marks_.detokenize_tail) + take(decode, marks_.detokenize_decode) +
                              take(finish, marks_.detokenize_last);
  timings.set_transfer_tail_seconds(Seconds(tail));
  timings.set_decode_queue_seconds(Seconds(take(decode, marks_.decode_queue)));
  timings.set_decode_seconds(Seconds(decode));
  timings.set_detokenize_seconds(Seconds(detokenize));
  timings.set_finish_seconds(Seconds(finish));
  timings.set_total_seconds(Seconds(end - spec_.arrived));

  uint32_t tokens = 0;
  uint32_t gaps = 0;
  Duration span{0};
  for (const ChoiceOutput& choice : choices_) {
    tokens += choice.token_count();
    if (choice.token_count() < 2) continue;
    gaps += choice.token_count() - 1;
    span += last_token_[choice.index()] - *marks_.first_token;
  }
  if (gaps > 0) timings.set_time_per_output_token_seconds(Seconds(span) / gaps);
  report_.mutable_usage()->set_completion_tokens(tokens);
}

}  // namespace baton
