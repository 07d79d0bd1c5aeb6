#pragma once

// Multi-producer queue with a fixed capacity. Push never blocks: a full queue is the caller's back pressure.

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace baton {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False when full or closed; `item` is then untouched.
  bool TryPush(T&& item) {
    absl::MutexLock lock(&mutex_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    return true;
  }

  // Everything queued now, in order; waits up to `timeout` for the first item.
  std::vector<T> PopAll(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &BoundedQueue::Ready), timeout);
    std::vector<T> out(std::make_move_iterator(items_.begin()), std::make_move_iterator(items_.end()));
    items_.clear();
    return out;
  }

  // The next item; waits for one. nullopt once closed and empty.
  std::optional<T> Pop() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &BoundedQueue::Ready));
    if (items_.empty()) return std::nullopt;
    std::optional<T> out(std::move(items_.front()));
    items_.pop_front();
    return out;
  }

  // No further pushes; waiters wake.
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return items_.size();
  }

 private:
  bool Ready() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return closed_ || !items_.empty(); }

  const size_t capacity_;
  mutable absl::Mutex mutex_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton
