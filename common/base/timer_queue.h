#pragma once

// Callbacks at given times, on one thread. For deadlines and renewals: many timers, short callbacks.

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"

namespace baton {

class TimerQueue {
 public:
  TimerQueue();
  ~TimerQueue();  // what has not fired never will

  using Id = std::pair<TimePoint, uint64_t>;
  // `callback` must not block and may call Schedule and Cancel.
  Id Schedule(Duration after, std::function<void()> callback);
  // No effect on a timer that has fired or is firing.
  void Cancel(const Id& id);

 private:
  void Loop();
  bool Due() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::map<Id, std::function<void()>> timers_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
