#include "common/base/timer_queue.h"

#include "absl/time/time.h"

namespace baton {

TimerQueue::TimerQueue() : thread_([this] { Loop(); }) {}

TimerQueue::~TimerQueue() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

TimerQueue::Id TimerQueue::Schedule(Duration after, std::function<void()> callback) {
  absl::MutexLock lock(&mutex_);
  const Id id{std::chrono::steady_clock::now() + after, next_++};
  timers_.emplace(id, std::move(callback));
  if (timers_.begin()->first == id) changed_ = true;  // an earlier wake-up than the thread waits for
  return id;
}

void TimerQueue::Cancel(const Id& id) {
  absl::MutexLock lock(&mutex_);
  timers_.erase(id);
}

bool TimerQueue::Due() const { return stop_ || changed_; }

void TimerQueue::Loop() {
  absl::MutexLock lock(&mutex_);
  while (!stop_) {
    const TimePoint now = std::chrono::steady_clock::now();
    if (!timers_.empty() && timers_.begin()->first.first <= now) {
      const auto callback = std::move(timers_.extract(timers_.begin()).mapped());
      mutex_.Unlock();
      callback();
      mutex_.Lock();
      continue;
    }
    changed_ = false;
    const absl::Duration wait =
        timers_.empty() ? absl::InfiniteDuration() : absl::FromChrono(timers_.begin()->first.first - now);
    mutex_.AwaitWithTimeout(absl::Condition(this, &TimerQueue::Due), wait);
  }
}

}  // namespace baton
