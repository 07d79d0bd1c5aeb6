#include "services/decode/decode_call.h"

#include <algorithm>

#include "common/base/block_hash.h"
#include "common/base/status.h"
#include "common/rpc/status.h"
#include "services/worker/work.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;

}  // namespace

DecodeCall::DecodeCall(std::shared_ptr<DecodeContext> context, std::shared_ptr<Stream> stream)
    : context_(std::move(context)),
      stream_(std::move(stream)),
      arrived_(context_->runtime->clock.Now()),
      id_(context_->next_id++) {
  ++context_->open;
}

DecodeCall::~DecodeCall() { --context_->open; }

void DecodeCall::OnMessage(DecodeRequest message) {
  std::optional<LeaseKey> lease;
  {
    absl::MutexLock lock(&mutex_);
    lease = lease_;
  }
  switch (message.command_case()) {
    case DecodeRequest::kReserve:
      return Reserve(message.reserve());
    case DecodeRequest::kLocal:
      return RunLocally(message.local());
    case DecodeRequest::kRenew:
      // A lease that is over ends the call by itself; the answer adds nothing.
      if (lease) context_->receiver->Renew(*lease).IgnoreError();
      return;
    case DecodeRequest::kFence:
      if (lease) context_->receiver->RelayFence({*lease, message.fence().reason()}).IgnoreError();
      return;
    case DecodeRequest::kStopChoice:
      return StopChoice(message.stop_choice().choice());
    case DecodeRequest::COMMAND_NOT_SET:
      break;
  }
  Fail(InvalidArgument("command: a message without one"));
}

std::optional<EngineRequest> DecodeCall::Accept(const internal::v1::Work& work) {
  absl::StatusOr<EngineRequest> request = ToEngineRequest(work, *context_->runtime);
  const uint32_t limit = context_->runtime->max_model_len;
  if (request.ok() && request->prompt.size() + uint64_t{request->sampling.max_tokens} > limit) {
    request = FailedPrecondition("%d prompt tokens and max_tokens %d make more than the %d that this worker takes",
                                 request->prompt.size(), request->sampling.max_tokens, limit);
  }
  bool second = false;
  {
    absl::MutexLock lock(&mutex_);
    second = stage_ != Stage::kNew;
  }
  if (second) {
    Fail(InvalidArgument("command: a second start"));
    return std::nullopt;
  }
  absl::MutexLock lock(&mutex_);
  request_id_ = work.request_id();
  attempt_ = work.attempt();
  trace_ = CallTrace(context_->runtime->spans, work, "decode", arrived_);
  if (!request.ok()) {
    context_->metrics->worker().OnRequestEnd(CodeName(request.status().code()));
    EndLocked(ToGrpc(request.status()));
    return std::nullopt;
  }
  request->id = id_;
  request->sink = shared_from_this();
  return *std::move(request);
}

void DecodeCall::RunLocally(const internal::v1::Work& work) {
  std::optional<EngineRequest> request = Accept(work);
  if (!request) return;
  request->work = WorkKind::kGenerate;
  Continue(*std::move(request));
}

void DecodeCall::Reserve(const internal::v1::Work& work) {
  std::optional<EngineRequest> request = Accept(work);
  if (!request) return;
  request->work = WorkKind::kDecode;
  const KvLayout& layout = context_->runtime->layout;
  BlockPool& pool = *context_->runtime->pool;
  const auto prompt_tokens = static_cast<uint32_t>(request->prompt.size());
  const std::vector<Hash128> chain = HashBlockChain(request->prompt, layout.block_size, request->cache_salt);
  // At most the blocks before the last prompt token: that one is always computed.
  const size_t usable = (prompt_tokens - 1) / layout.block_size;
  std::vector<BlockId> pinned;
  if (context_->prefix_cache) pinned = pool.MatchPrefix(std::span(chain).first(std::min(usable, chain.size())));

  ReserveRequest reserve;
  reserve.attempt = AttemptId{work.attempt()};
  reserve.prompt_tokens = prompt_tokens;
  reserve.pinned_blocks = static_cast<uint32_t>(pinned.size());
  reserve.choices = static_cast<uint32_t>(request->choices.size());
  reserve.on_end = [self = shared_from_this()](absl::StatusOr<CommittedHandoff> committed) {
    self->OnLeaseEnd(std::move(committed));
  };
  // The commit cannot come before the offer has left, but an expiry could: keep the order by the lock.
  bool cancel = false;
  {
    absl::MutexLock lock(&mutex_);
    absl::StatusOr<LeaseOffer> offer = context_->receiver->Reserve(std::move(reserve));
    if (!offer.ok()) {
      pool.Release(pinned);
      context_->metrics->worker().OnRequestEnd(CodeName(offer.status().code()));
      EndLocked(ToGrpc(offer.status()));
      return;
    }
    stage_ = Stage::kLeased;
    reserved_at_ = context_->runtime->clock.Now();
    trace_.Add("reserve", arrived_, reserved_at_);
    lease_ = offer->key;
    pinned_ = std::move(pinned);
    chain_ = chain;
    DecodeResponse message;
    message.mutable_reserved()->set_offer(Encode(*offer));
    message.mutable_reserved()->set_cached_tokens(offer->first_block * layout.block_size);
    message.mutable_reserved()->set_lease_seconds(context_->lease_seconds);
    Send(std::move(message));
    reserved_ = *std::move(request);
    cancel = gone_;
  }
  if (cancel) OnGone();
}

void DecodeCall::OnLeaseEnd(absl::StatusOr<CommittedHandoff> committed) {
  BlockPool& pool = *context_->runtime->pool;
  EngineRequest request;
  {
    absl::MutexLock lock(&mutex_);
    trace_.Add("lease", reserved_at_, context_->runtime->clock.Now());
    if (!committed.ok()) {
      // This worker is well: UNAVAILABLE would say that it is not.
      if (committed.status().code() == absl::StatusCode::kUnavailable) {
        committed = Aborted("%s", StatusMessage(committed.status()));
      }
      pool.Release(pinned_);
      pinned_.clear();
      reserved_.sink.reset();
      context_->metrics->worker().OnRequestEnd(gone_ ? "cancelled" : CodeName(committed.status().code()));
      EndLocked(ToGrpc(committed.status()));
      return;
    }
    request = std::move(reserved_);
    request.blocks = std::move(pinned_);
    request.blocks.insert(request.blocks.end(), committed->blocks.begin(), committed->blocks.end());
    pinned_.clear();

    // Choices that their first token ended, or that the router stopped meanwhile, need no slot and no growth block.
    std::vector<ChoiceStart> running;
    for (ChoiceStart& choice : request.choices) {
      for (const FirstToken& first : committed->first_tokens) {
        if (first.choice != choice.index || first.finished || stopped_.contains(choice.index)) continue;
        choice.generated.push_back(first.id);
        running.push_back(std::move(choice));
        break;
      }
    }
    const size_t unused = request.choices.size() - running.size();
    pool.Release(std::span(request.blocks).last(unused));
    request.blocks.resize(request.blocks.size() - unused);
    request.choices = std::move(running);

    DecodeResponse message;
    message.mutable_committed();
    Send(std::move(message));
    if (request.choices.empty() || gone_) {
      if (context_->prefix_cache) pool.Publish(std::span(request.blocks).first(chain_.size()), chain_);
      pool.Release(request.blocks);
      context_->metrics->worker().OnRequestEnd(gone_ ? "cancelled" : "ok");
      if (!gone_) {
        DecodeResponse done;
        done.mutable_done();
        Send(std::move(done));
      }
      EndLocked(gone_ ? grpc::Status::CANCELLED : grpc::Status::OK);
      return;
    }
  }
  Continue(std::move(request));
}

void DecodeCall::Continue(EngineRequest request) {
  const std::vector<BlockId> blocks = request.blocks;
  {
    absl::MutexLock lock(&mutex_);
    stage_ = Stage::kRunning;
    submitted_at_ = context_->runtime->clock.Now();
  }
  const absl::Status status = context_->runtime->engine->Submit(std::move(request));
  absl::MutexLock lock(&mutex_);
  if (!status.ok()) {
    context_->runtime->pool->Release(blocks);
    context_->metrics->worker().OnRequestEnd(CodeName(status.code()));
    EndLocked(ToGrpc(status));
    return;
  }
  // What came while the engine did not know the request yet.
  if (gone_) context_->runtime->engine->Cancel(id_);
  for (const uint32_t choice : stopped_) context_->runtime->engine->CancelChoice(id_, choice);
}

void DecodeCall::StopChoice(uint32_t choice) {
  absl::MutexLock lock(&mutex_);
  stopped_.insert(choice);
  if (stage_ == Stage::kRunning) context_->runtime->engine->CancelChoice(id_, choice);
}

void DecodeCall::OnStarted(uint32_t cached_tokens) {
  absl::MutexLock lock(&mutex_);
  if (trace_.recorded()) {
    trace_.OnStarted(lease_ ? "decode_queue" : "prefill_queue", submitted_at_, context_->runtime->clock.Now(),
                     cached_tokens);
  }
  if (lease_) return;  // a committed handoff has no prompt to start
  DecodeResponse message;
  message.mutable_started()->set_cached_tokens(cached_tokens);
  Send(std::move(message));
}

void DecodeCall::OnPromptProgress(uint32_t tokens_done, std::span<const BlockId>) {
  absl::MutexLock lock(&mutex_);
  if (trace_.recorded() && !lease_) trace_.OnProgress(context_->runtime->clock.Now(), tokens_done);
}

void DecodeCall::OnTokens(std::span<const ChoiceToken> tokens) {
  absl::MutexLock lock(&mutex_);
  const TimePoint now = context_->runtime->clock.Now();
  for (const ChoiceToken& token : tokens) {
    const auto [last, first] = last_token_.try_emplace(token.choice, now);
    if (first) {
      if (token.token_index == 0) context_->metrics->worker().OnFirstToken(now - arrived_);
    } else {
      context_->metrics->worker().OnTokenGap(now - last->second);
      last->second = now;
    }
  }
  tokens_ += static_cast<uint32_t>(tokens.size());
  DecodeResponse message;
  ToProto(tokens, message.mutable_tokens()->mutable_tokens());
  Send(std::move(message));
}

void DecodeCall::OnEnd(const absl::Status& status, const EngineTimings& timings) {
  context_->metrics->worker().OnRequestEnd(CodeName(status.code()));
  absl::MutexLock lock(&mutex_);
  context_->metrics->worker().OnEngineTimings(timings, status.ok() && !lease_, status.ok());
  if (trace_.recorded() && timings.decode > Duration::zero()) {
    const TimePoint now = context_->runtime->clock.Now();
    trace_.Add("generate", now - timings.decode, now, {{"gen_ai.usage.output_tokens", int64_t{tokens_}}});
  }
  if (status.ok()) {
    DecodeResponse message;
    *message.mutable_done()->mutable_engine() = ToProto(timings);
    Send(std::move(message));
  }
  EndLocked(ToGrpc(status));
}

void DecodeCall::OnGone() {
  std::optional<LeaseKey> lease;
  {
    absl::MutexLock lock(&mutex_);
    gone_ = true;
    if (stage_ == Stage::kLeased) lease = lease_;
    if (stage_ == Stage::kRunning) context_->runtime->engine->Cancel(id_);
    if (stage_ == Stage::kNew) EndLocked(grpc::Status::CANCELLED);
  }
  if (lease) context_->receiver->Cancel(*lease);
}

void DecodeCall::Send(DecodeResponse message) {
  message.set_attempt(attempt_);
  stream_->Send(std::move(message));
}

void DecodeCall::EndLocked(const grpc::Status& status) {
  stage_ = Stage::kEnded;
  trace_.End(context_->runtime->clock.Now(), status.ok() ? "" : status.error_message());
  stream_->End(status);
}

void DecodeCall::Fail(const absl::Status& status) {
  // The caller hears it now; lease and engine still end by themselves, as after a disconnect.
  stream_->End(ToGrpc(status));
  OnGone();
}

}  // namespace baton
