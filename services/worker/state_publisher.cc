#include "services/worker/state_publisher.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace baton {
namespace {

constexpr auto kTick = absl::Milliseconds(50);
constexpr Duration kSignOfLife = std::chrono::seconds(2);
constexpr size_t kMaxBacklog = 64;  // messages
constexpr size_t kMaxEventsAMessage = 8192;

void Add(const Hash128& hash, internal::v1::BlockHash* out) {
  out->set_high(hash.high);
  out->set_low(hash.low);
}

}  // namespace

StatePublisher::StatePublisher(internal::v1::Identity identity)
    : identity_(std::move(identity)), thread_([this] { Loop(); }) {}

StatePublisher::~StatePublisher() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    for (Watcher& watcher : watchers_) watcher.stream->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "worker stops"));
    watchers_.clear();
    if (runtime_) runtime_->pool->SetPrefixListener(nullptr);
  }
  thread_.join();
}

void StatePublisher::SetReady(std::shared_ptr<WorkerRuntime> runtime, internal::v1::Identity identity,
                              AddLoad add_load) {
  runtime->pool->SetPrefixListener([this](const PrefixEvent& event) {
    absl::MutexLock lock(&events_mutex_);
    events_.push_back(event);
  });
  absl::MutexLock lock(&mutex_);
  runtime_ = std::move(runtime);
  identity_ = std::move(identity);
  add_load_ = std::move(add_load);
  stage_ = internal::v1::STAGE_READY;
  stage_changed_ = true;
  for (Watcher& watcher : watchers_) watcher.needs_identity = watcher.needs_snapshot = true;
}

void StatePublisher::SetDraining() {
  absl::MutexLock lock(&mutex_);
  stage_ = internal::v1::STAGE_DRAINING;
  stage_changed_ = true;
}

void StatePublisher::Watch(std::shared_ptr<Stream> stream) {
  absl::MutexLock lock(&mutex_);
  watchers_.push_back(Watcher{.stream = std::move(stream), .last_sent = clock_.Now()});
  Publish(watchers_.back(), CurrentLoad(), true);
}

void StatePublisher::Unwatch(const Stream* stream) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(watchers_, [&](const Watcher& watcher) { return watcher.stream.get() == stream; });
}

void StatePublisher::Loop() {
  absl::MutexLock lock(&mutex_);
  while (!stop_) {
    mutex_.AwaitWithTimeout(absl::Condition(&stage_changed_), kTick);
    if (!stop_) Tick();
  }
}

internal::v1::Load StatePublisher::CurrentLoad() const {
  internal::v1::Load out;
  if (!runtime_) return out;
  const EngineLoad load = runtime_->engine->load();
  const BlockCounts blocks = runtime_->pool->counts();
  out.set_waiting_requests(load.waiting_requests);
  out.set_waiting_prompt_tokens(load.waiting_prompt_tokens);
  out.set_running_sequences(load.running_sequences);
  out.set_blocks_free(blocks.free);
  out.set_blocks_cached(blocks.cached);
  out.set_blocks_leased(blocks.leased);
  out.set_blocks_owned(blocks.owned);
  out.set_blocks_quarantined(blocks.quarantined);
  out.set_prompt_tokens(load.prompt_tokens);
  out.set_generated_tokens(load.generated_tokens);
  out.set_preemptions(load.preemptions);
  out.set_prefix_queries(load.prefix_queries);
  out.set_prefix_hits(load.prefix_hits);
  out.set_flops(load.flops);
  out.set_bytes_read(load.bytes);
  add_load_(&out);
  return out;
}

void StatePublisher::Tick() {
  fresh_.clear();
  {
    absl::MutexLock lock(&events_mutex_);
    fresh_.swap(events_);
  }
  const internal::v1::Load load = CurrentLoad();
  const std::string bytes = load.SerializeAsString();
  const bool changed = stage_changed_ || bytes != last_load_;
  stage_changed_ = false;
  last_load_ = bytes;
  for (Watcher& watcher : watchers_) Publish(watcher, load, changed);
}

void StatePublisher::Publish(Watcher& watcher, const internal::v1::Load& load, bool changed) {
  if (watcher.stream->backlog() > kMaxBacklog) {
    watcher.needs_snapshot = true;  // what it misses now comes whole once it reads again
    return;
  }
  const TimePoint now = clock_.Now();
  const bool owes = watcher.needs_identity || (runtime_ && watcher.needs_snapshot);
  if (!changed && fresh_.empty() && !owes && now - watcher.last_sent < kSignOfLife) {
    return;
  }
  internal::v1::WatchStateResponse message;
  message.set_stage(stage_);
  if (watcher.needs_identity) *message.mutable_identity() = identity_;
  watcher.needs_identity = false;
  *message.mutable_load() = load;
  if (runtime_ && (watcher.needs_snapshot || fresh_.size() > kMaxEventsAMessage)) {
    const BlockPool::PrefixSnapshot snapshot = runtime_->pool->SnapshotPrefixes();
    auto* prefixes = message.mutable_prefixes();
    prefixes->set_snapshot(true);
    prefixes->set_sequence(snapshot.sequence);
    for (const Hash128& hash : snapshot.hashes) Add(hash, prefixes->add_stored());
    watcher.sequence = snapshot.sequence;
    watcher.needs_snapshot = false;
  } else if (runtime_) {
    auto* prefixes = message.mutable_prefixes();
    absl::flat_hash_map<Hash128, PrefixEvent::Kind> last;  // a hash may come and go within one message
    for (const PrefixEvent& event : fresh_) {
      if (event.sequence <= watcher.sequence) continue;  // part of its snapshot
      last[event.hash] = event.kind;
      watcher.sequence = event.sequence;
    }
    for (const auto& [hash, kind] : last) {
      Add(hash, kind == PrefixEvent::Kind::kStored ? prefixes->add_stored() : prefixes->add_removed());
    }
    prefixes->set_sequence(watcher.sequence);
  }
  watcher.last_sent = now;
  watcher.stream->Send(std::move(message));
}

}  // namespace baton
