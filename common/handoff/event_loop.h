#pragma once

// A thread that runs posted events one after the other, so that state which only events touch needs no lock. Events may
// be posted from any thread, from events too, and after the end, so that callbacks of others need no lifetime rules.

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton {

class EventQueue {
 public:
  // False after Close; the event is dropped then.
  bool Post(std::function<void()> event) {
    absl::MutexLock lock(&mutex_);
    if (closed_) return false;
    events_.push_back(std::move(event));
    return true;
  }
  // Runs events until Close, and `on_tick` after them and at least once a second; events queued before Close still run.
  void Run(const std::function<void()>& on_tick) {
    while (true) {
      std::deque<std::function<void()>> events;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.AwaitWithTimeout(absl::Condition(this, &EventQueue::Ready), absl::Seconds(1));
        if (closed_ && events_.empty()) return;
        events.swap(events_);
      }
      for (const std::function<void()>& event : events) event();
      on_tick();
    }
  }
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

 private:
  bool Ready() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return closed_ || !events_.empty(); }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> events_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Joins in its destructor, which must not run on its own thread.
class EventLoop {
 public:
  explicit EventLoop(std::function<void()> on_tick = [] {})
      : thread_([queue = queue_, on_tick = std::move(on_tick)] { queue->Run(on_tick); }) {}
  ~EventLoop() {
    queue_->Close();
    thread_.join();
  }
  EventLoop(const EventLoop&) = delete;

  const std::shared_ptr<EventQueue>& queue() const { return queue_; }

 private:
  const std::shared_ptr<EventQueue> queue_ = std::make_shared<EventQueue>();
  std::thread thread_;
};

}  // namespace baton
