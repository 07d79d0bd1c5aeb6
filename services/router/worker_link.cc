#include "services/router/worker_link.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <vector>

#include "common/base/version.h"

namespace baton {
namespace {

constexpr Duration kReconnectAfter = std::chrono::milliseconds(300);

std::vector<Hash128> Hashes(const google::protobuf::RepeatedPtrField<internal::v1::BlockHash>& in) {
  std::vector<Hash128> out;
  out.reserve(static_cast<size_t>(in.size()));
  for (const auto& hash : in) out.push_back({hash.high(), hash.low()});
  return out;
}

}  // namespace

HandoffIdentity HandoffIdentityOf(const internal::v1::Identity& identity) {
  return {LayoutHash{identity.layout_hash()}, NumericsHash{identity.numerics_hash()}, identity.allow_mixed_numerics()};
}

WorkerLink::WorkerLink(std::string address, std::shared_ptr<grpc::Channel> channel, TimerQueue* timers,
                       const Logger* log, std::function<void()> on_change)
    : address_(std::move(address)),
      channel_(std::move(channel)),
      timers_(timers),
      log_(log),
      on_change_(std::move(on_change)),
      prefill_(internal::v1::PrefillService::NewStub(channel_)),
      decode_(internal::v1::DecodeService::NewStub(channel_)),
      worker_(internal::v1::WorkerService::NewStub(channel_)) {}

void WorkerLink::Start() { Watch(); }

void WorkerLink::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  if (stream_) stream_->Cancel();
}

void WorkerLink::AwaitEnd() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](int* open) { return *open == 0; }, &open_streams_));
}

void WorkerLink::Watch() {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return;
  ++open_streams_;
  internal::v1::WatchStateRequest request;
  request.set_protocol_version(kInternalProtocolVersion);
  using Stream = ClientReadStream<internal::v1::WatchStateRequest, internal::v1::WatchStateResponse>;
  stream_ = Stream::Start(std::move(request), shared_from_this(),
                          [this](grpc::ClientContext* context, const internal::v1::WatchStateRequest* message,
                                 auto* reactor) { worker_->async()->WatchState(context, message, reactor); });
}

void WorkerLink::OnMessage(internal::v1::WatchStateResponse message) {
  bool changed = false;
  {
    absl::MutexLock lock(&mutex_);
    changed = !state_.connected || state_.stage != message.stage() || message.has_identity();
    state_.connected = true;
    state_.stage = message.stage();
    last_error_.clear();
    if (message.has_identity()) {
      if (message.identity().incarnation() != state_.identity.incarnation()) prefixes_.Clear();
      state_.identity = std::move(*message.mutable_identity());
    }
    state_.load = std::move(*message.mutable_load());
    if (message.has_prefixes()) {
      const auto& prefixes = message.prefixes();
      if (prefixes.snapshot()) {
        prefixes_.Reset(Hashes(prefixes.stored()), prefixes.sequence());
      } else {
        prefixes_.Apply(Hashes(prefixes.stored()), Hashes(prefixes.removed()), prefixes.sequence());
      }
    }
  }
  if (changed) on_change_();
}

void WorkerLink::OnEnd(const grpc::Status& status) {
  bool changed = false;
  bool stopped = false;
  {
    absl::MutexLock lock(&mutex_);
    stream_.reset();
    changed = state_.connected;
    stopped = stopped_;
    state_.connected = false;
    state_.stage = internal::v1::STAGE_UNSPECIFIED;
    if (!stopped && (changed || last_error_ != status.error_message())) {
      log_->Warning("worker is unreachable", {{"worker", address_}, {"error", status.error_message()}});
    }
    last_error_ = status.error_message();
  }
  if (!stopped) {
    timers_->Schedule(kReconnectAfter, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Watch();
    });
    if (changed) on_change_();
  }
  absl::MutexLock lock(&mutex_);
  --open_streams_;
}

WorkerLink::State WorkerLink::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

PairingCandidate WorkerLink::Candidate(std::span<const Hash128> chain) const {
  absl::MutexLock lock(&mutex_);
  const internal::v1::Load& load = state_.load;
  PairingCandidate candidate{HandoffIdentityOf(state_.identity)};
  candidate.cached_blocks = prefixes_.Match(chain);
  // The worker's word is old by a message and counts other routers' work; our own count is exact but knows only ours.
  candidate.queued_prompt_tokens = std::max<uint64_t>(load.waiting_prompt_tokens(), sent_.prompt_tokens);
  candidate.blocks_in_use =
      std::max(load.blocks_owned() + load.blocks_leased() + load.blocks_quarantined(), sent_.blocks);
  candidate.running_sequences = std::max(load.running_sequences(), sent_.sequences);
  candidate.pool_blocks = state_.identity.pool_blocks();
  candidate.max_lease_blocks = state_.identity.max_lease_blocks();
  return candidate;
}

void WorkerLink::AddWork(const Work& work) {
  absl::MutexLock lock(&mutex_);
  sent_.prompt_tokens += work.prompt_tokens;
  sent_.blocks += work.blocks;
  sent_.sequences += work.sequences;
  ++state_.in_flight;
}

void WorkerLink::RemoveWork(const Work& work) {
  absl::MutexLock lock(&mutex_);
  sent_.prompt_tokens -= work.prompt_tokens;
  sent_.blocks -= work.blocks;
  sent_.sequences -= work.sequences;
  --state_.in_flight;
}

}  // namespace baton
