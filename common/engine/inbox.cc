#include "common/engine/inbox.h"

#include <utility>

#include "common/base/status.h"

namespace baton {

absl::Status Inbox::Submit(EngineRequest request, TimePoint now) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return Unavailable("the engine takes no new requests");
  if (arrivals_.size() >= capacity_) {
    return ResourceExhausted("%d requests wait for the step thread, the limit is %d", arrivals_.size(), capacity_);
  }
  const auto [entry, is_new] = live_.try_emplace(request.id);
  if (!is_new) return InvalidArgument("request id %d is in use", request.id);
  entry->second.control.id = request.id;
  ++unended_;
  if (request.work != WorkKind::kDecode) queued_tokens_ += request.prompt.size();
  arrivals_.push_back({std::move(request), now});
  return absl::OkStatus();
}

Inbox::Live* Inbox::Find(uint64_t id) {
  const auto entry = live_.find(id);
  return entry == live_.end() ? nullptr : &entry->second;
}

void Inbox::MarkDirty(uint64_t id, Live* live) {
  if (!live->dirty) dirty_.push_back(id);
  live->dirty = true;
}

void Inbox::Cancel(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  Live* live = Find(id);
  if (live == nullptr || live->ended || !live->control.end.ok()) return;
  live->control.end = Cancelled("cancelled by the caller");
  MarkDirty(id, live);
}

void Inbox::CancelChoice(uint64_t id, uint32_t choice) {
  absl::MutexLock lock(&mutex_);
  Live* live = Find(id);
  if (live == nullptr || live->ended) return;
  live->control.cancelled_choices |= uint64_t{1} << choice;
  MarkDirty(id, live);
}

void Inbox::Release(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  Live* live = Find(id);
  if (live == nullptr) return;
  live->control.release = true;
  MarkDirty(id, live);
}

void Inbox::CancelAll(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  for (auto& [id, live] : live_) {
    if (live.ended || !live.control.end.ok()) continue;
    live.control.end = status;
    MarkDirty(id, &live);
  }
}

void Inbox::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

void Inbox::Stop() {
  absl::MutexLock lock(&mutex_);
  closed_ = stop_ = true;
}

Inbox::Batch Inbox::Take(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &Inbox::HasNews), timeout);
  Batch batch;
  batch.stop = stop_;
  batch.arrivals = std::exchange(arrivals_, {});
  queued_tokens_ = 0;
  for (const uint64_t id : dirty_) {
    Live* live = Find(id);
    if (live == nullptr) continue;
    live->dirty = false;
    batch.controls.push_back(live->control);
  }
  dirty_.clear();
  return batch;
}

void Inbox::Ended(uint64_t id, bool held) {
  absl::MutexLock lock(&mutex_);
  --unended_;
  if (held) {
    Find(id)->ended = true;
  } else {
    live_.erase(id);
  }
}

void Inbox::Released(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  live_.erase(id);
}

bool Inbox::AwaitAllEnded(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &Inbox::AllEnded), timeout);
}

uint32_t Inbox::unended() const {
  absl::MutexLock lock(&mutex_);
  return unended_;
}

Inbox::Queued Inbox::queued() const {
  absl::MutexLock lock(&mutex_);
  return {static_cast<uint32_t>(arrivals_.size()), queued_tokens_};
}

}  // namespace baton
