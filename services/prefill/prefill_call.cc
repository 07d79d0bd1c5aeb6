#include "services/prefill/prefill_call.h"

#include "common/base/status.h"
#include "common/handoff/lease_offer.h"
#include "common/rpc/status.h"
#include "services/worker/work.h"

namespace baton {
namespace {

using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;

internal::v1::HandoffOutcome ToProto(HandoffOutcome outcome) {
  switch (outcome) {
    case HandoffOutcome::kCommitted:
      return internal::v1::HANDOFF_OUTCOME_COMMITTED;
    case HandoffOutcome::kDiscarded:
      return internal::v1::HANDOFF_OUTCOME_DISCARDED;
    case HandoffOutcome::kRefused:
      return internal::v1::HANDOFF_OUTCOME_REFUSED;
    case HandoffOutcome::kFenced:
      return internal::v1::HANDOFF_OUTCOME_FENCED;
    case HandoffOutcome::kFailed:
      return internal::v1::HANDOFF_OUTCOME_FAILED;
  }
  return internal::v1::HANDOFF_OUTCOME_FAILED;
}

}  // namespace

PrefillCall::PrefillCall(std::shared_ptr<PrefillContext> context, std::shared_ptr<Stream> stream)
    : context_(std::move(context)),
      stream_(std::move(stream)),
      arrived_(context_->runtime->clock.Now()),
      id_(context_->next_id++) {
  ++context_->open;
}

PrefillCall::~PrefillCall() { --context_->open; }

void PrefillCall::OnMessage(PrefillRequest message) {
  switch (message.command_case()) {
    case PrefillRequest::kStart:
      Start(std::move(*message.mutable_start()));
      return;
    case PrefillRequest::kLease:
      BeginHandoff(message.lease().offer());
      return;
    case PrefillRequest::kNoLease: {
      {
        absl::MutexLock lock(&mutex_);
        no_lease_ = true;
      }
      EndIfComplete();
      return;
    }
    case PrefillRequest::COMMAND_NOT_SET:
      break;
  }
  Abort(ToGrpc(InvalidArgument("command: a message without one")), "protocol error");
}

void PrefillCall::Start(internal::v1::Work work) {
  absl::StatusOr<EngineRequest> request = ToEngineRequest(work, *context_->runtime);
  {
    absl::MutexLock lock(&mutex_);
    if (submitted_) request = InvalidArgument("command: a second start");
    request_id_ = work.request_id();
    attempt_ = work.attempt();
    trace_ = CallTrace(context_->runtime->spans, work, "prefill", arrived_);
    if (request.ok()) {
      submitted_ = true;
      prompt_tokens_ = static_cast<uint32_t>(request->prompt.size());
    }
  }
  if (request.ok()) {
    request->id = id_;
    request->work = WorkKind::kPrefill;
    request->sink = shared_from_this();
    const absl::Status status = context_->runtime->engine->Submit(*std::move(request));
    if (status.ok()) {
      // A client that went away in between: its OnGone found nothing to cancel.
      absl::MutexLock lock(&mutex_);
      if (failure_) context_->runtime->engine->Cancel(id_);
      return;
    }
    absl::MutexLock lock(&mutex_);
    submitted_ = false;
    request = status;
  }
  context_->metrics->worker().OnRequestEnd(CodeName(request.status().code()));
  Abort(ToGrpc(request.status()), StatusMessage(request.status()));
}

void PrefillCall::BeginHandoff(const std::string& bytes) {
  absl::StatusOr<LeaseOffer> offer = DecodeLeaseOffer(bytes);
  if (!offer.ok()) {
    Abort(ToGrpc(offer.status()), "malformed lease");
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    if (!submitted_ || ended_ || handoff_ || no_lease_) return;
    handoff_ = context_->sender->Begin(
        *offer, [self = shared_from_this()](const HandoffResult& result) { self->OnHandoffDone(result); });
    // What the engine said before the lease was here.
    if (failure_) {
      handoff_->Abort(failure_->error_message());
    } else {
      if (tokens_done_ > 0) {
        handoff_->PushBlocks(tokens_done_, blocks_);
      }
      if (!first_tokens_.empty()) handoff_->Commit(prompt_tokens_, first_tokens_);
    }
  }
  EndIfComplete();
}

void PrefillCall::OnStarted(uint32_t cached_tokens) {
  absl::MutexLock lock(&mutex_);
  started_ = context_->runtime->clock.Now();
  trace_.OnStarted("prefill_queue", arrived_, started_, cached_tokens);
  PrefillResponse message;
  message.mutable_started()->set_cached_tokens(cached_tokens);
  Send(std::move(message));
}

void PrefillCall::OnPromptProgress(uint32_t tokens_done, std::span<const BlockId> blocks) {
  absl::MutexLock lock(&mutex_);
  if (trace_.recorded()) trace_.OnProgress(context_->runtime->clock.Now(), tokens_done);
  tokens_done_ = tokens_done;
  blocks_.assign(blocks.begin(), blocks.end());
  if (!handoff_ || failure_) return;
  handoff_->PushBlocks(tokens_done_, blocks_);
}

void PrefillCall::OnTokens(std::span<const ChoiceToken> tokens) {
  absl::MutexLock lock(&mutex_);
  context_->metrics->worker().OnFirstToken(context_->runtime->clock.Now() - arrived_);
  PrefillResponse message;
  ToProto(tokens, message.mutable_tokens()->mutable_tokens());
  Send(std::move(message));
  for (const ChoiceToken& token : tokens) {
    first_tokens_.push_back({token.choice, token.token.id, token.token.finish != FinishReason::kNone});
  }
  if (handoff_ && !failure_) handoff_->Commit(prompt_tokens_, first_tokens_);
}

void PrefillCall::OnEnd(const absl::Status& status, const EngineTimings& timings) {
  context_->metrics->worker().OnRequestEnd(CodeName(status.code()));
  context_->metrics->worker().OnEngineTimings(timings, status.ok(), false);
  {
    absl::MutexLock lock(&mutex_);
    timings_ = timings;
  }
  if (!status.ok()) {
    Abort(ToGrpc(status), StatusMessage(status));
  } else {
    EndIfComplete();
  }
}

void PrefillCall::OnHandoffDone(const HandoffResult& result) {
  context_->metrics->OnHandoff(result);
  {
    absl::MutexLock lock(&mutex_);
    result_ = result;
    AddHandoffSpans(result);
    if (result.outcome != HandoffOutcome::kCommitted) {
      context_->log->Warning("handoff ended without a commit", {{"request_id", request_id_},
                                                                {"trace_id", trace_.trace_id()},
                                                                {"attempt", attempt_},
                                                                {"outcome", HandoffOutcomeName(result.outcome)},
                                                                {"reason", result.reason},
                                                                {"fence_delivered", result.fence_delivered}});
    }
  }
  // Nobody will take the prompt any more: stop computing it.
  if (result.outcome != HandoffOutcome::kCommitted) context_->runtime->engine->Cancel(id_);
  EndIfComplete();
}

void PrefillCall::AddHandoffSpans(const HandoffResult& result) {
  if (!trace_.recorded()) return;
  if (!result.chunks.empty()) {
    const TraceContext transfer =
        trace_.AddGroup("transfer", result.chunks.front().put_started, result.chunks.back().put_flushed,
                        {{"baton.kv.bytes", static_cast<int64_t>(result.bytes)},
                         {"baton.kv.blocks", static_cast<int64_t>(result.blocks)},
                         {"baton.kv.transport", context_->transport + "/" + result.lane}});
    for (const HandoffResult::ChunkTimes& chunk : result.chunks) {
      trace_.AddTo(transfer, "put", chunk.put_started, chunk.put_flushed, {{"baton.kv.blocks", int64_t{chunk.blocks}}});
    }
  }
  if (result.tail > Duration::zero()) {
    const TimePoint now = context_->runtime->clock.Now();
    trace_.Add("commit", now - result.tail, now,
               {{"baton.handoff.outcome", std::string(HandoffOutcomeName(result.outcome))},
                {"baton.handoff.reason", result.reason}});
  }
}

void PrefillCall::OnGone() { Abort(grpc::Status::CANCELLED, "the router ended the call"); }

void PrefillCall::Abort(const grpc::Status& status, const std::string& reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (ended_ || failure_) {
      // The first failure counts.
    } else {
      failure_ = status;
      if (handoff_ && !result_) handoff_->Abort(reason);
      if (submitted_ && !timings_) context_->runtime->engine->Cancel(id_);
    }
  }
  EndIfComplete();
}

void PrefillCall::Send(PrefillResponse message) {
  message.set_attempt(attempt_);
  stream_->Send(std::move(message));
}

internal::v1::PrefillDone PrefillCall::Report() const {
  internal::v1::PrefillDone done;
  if (timings_) *done.mutable_engine() = ToProto(*timings_);
  if (!result_) return done;
  done.set_outcome(ToProto(result_->outcome));
  done.set_reason(result_->reason);
  done.set_fence_owed(!result_->fence_delivered);
  done.set_bytes(result_->bytes);
  done.set_blocks(result_->blocks);
  done.set_transfer_seconds(Seconds(result_->transfer));
  done.set_tail_seconds(Seconds(result_->tail));
  done.set_transport(context_->transport + "/" + result_->lane);
  for (const HandoffResult::ChunkTimes& times : result_->chunks) {
    auto* chunk = done.add_chunks();
    chunk->set_computed(Seconds(times.pushed - started_));
    chunk->set_put_started(Seconds(times.put_started - started_));
    chunk->set_put_flushed(Seconds(times.put_flushed - started_));
    chunk->set_blocks(times.blocks);
  }
  return done;
}

void PrefillCall::EndIfComplete() {
  bool release = false;
  std::shared_ptr<OutgoingHandoff> finished;  // its callback holds this call: let go of it, outside the lock
  {
    absl::MutexLock lock(&mutex_);
    const bool engine_done = !submitted_ || timings_.has_value();
    const bool handoff_done = handoff_ ? result_.has_value() : (no_lease_ || failure_.has_value());
    if (ended_ || !engine_done || !handoff_done) return;
    ended_ = true;
    release = submitted_;
    finished = std::move(handoff_);
    if (!failure_ || result_) {
      PrefillResponse message;
      *message.mutable_done() = Report();
      Send(std::move(message));
    }
    trace_.End(context_->runtime->clock.Now(), failure_ ? failure_->error_message() : "");
    stream_->End(failure_.value_or(grpc::Status::OK));
  }
  if (release) context_->runtime->engine->Release(id_);
}

}  // namespace baton
