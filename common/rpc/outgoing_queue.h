#pragma once

// What a streaming reactor may start next: at most one write in flight, messages in order, the end after the last one.

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton {

// End: what closes the direction (a grpc::Status on servers). Thread-safe. `start_write` and `start_end` run under the
// lock, so that nothing starts after Close has returned; gRPC never runs a reaction inside of a start.
template <typename Message, typename End>
class OutgoingQueue {
 public:
  OutgoingQueue(std::function<void(const Message&)> start_write, std::function<void(const End&)> start_end)
      : start_write_(std::move(start_write)), start_end_(std::move(start_end)) {}

  void Push(Message message) {
    absl::MutexLock lock(&mutex_);
    if (end_ || closed_) return;
    bytes_ += message.ByteSizeLong();
    messages_.push_back(std::move(message));
    StartNext();
  }

  // Ends after what is queued. Later pushes and ends have no effect.
  void Finish(End end) {
    absl::MutexLock lock(&mutex_);
    if (end_ || closed_) return;
    end_ = std::move(end);
    StartNext();
  }

  // The write in flight is over. Not ok: the other side is gone; what is queued is dropped.
  void OnWritten(bool ok) {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!messages_.empty()) {
      bytes_ -= messages_.front().ByteSizeLong();
      messages_.pop_front();
    }
    if (!ok) {
      messages_.clear();
      bytes_ = 0;
    }
    StartNext();
  }

  // Nothing is started any more.
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

  // Messages not yet written, and their bytes on the wire.
  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return messages_.size();
  }
  size_t bytes() const {
    absl::MutexLock lock(&mutex_);
    return bytes_;
  }

 private:
  void StartNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || ended_ || closed_) return;
    if (!messages_.empty()) {
      writing_ = true;
      start_write_(messages_.front());
    } else if (end_) {
      ended_ = true;
      start_end_(*end_);
    }
  }

  const std::function<void(const Message&)> start_write_;
  const std::function<void(const End&)> start_end_;
  mutable absl::Mutex mutex_;
  std::deque<Message> messages_ ABSL_GUARDED_BY(mutex_);  // the front stays while it is being written
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<End> end_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton
