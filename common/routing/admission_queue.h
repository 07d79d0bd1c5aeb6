#pragma once

// Bounded queue of work that waits for a place: by aged priority, then arrival. Thread-safe. The callbacks are called
// outside the lock.

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/aged_priority.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace baton {

class AdmissionQueue {
 public:
  // `places`: admitted at once. `capacity`: waiting beyond that. `aging`: the waiting time that is worth one level of
  // priority; 0: priority alone. `clock` outlives the queue.
  AdmissionQueue(uint32_t places, uint32_t capacity, Duration aging, const Clock* clock)
      : places_(places), capacity_(capacity), aging_(aging), clock_(clock) {}

  // (rank, arrival number)
  using Ticket = std::pair<int64_t, uint64_t>;

  // Calls `admit` now if there is a place, else when one becomes free; each admission must be paired with one Leave.
  // RESOURCE_EXHAUSTED with the numbers when the queue is full; `admit` is then never called.
  absl::StatusOr<Ticket> Enter(int32_t priority, std::function<void()> admit) {
    Ticket ticket;
    {
      absl::MutexLock lock(&mutex_);
      ticket = {AgedRank(priority, clock_->Now(), aging_), next_++};
      if (running_ >= places_) {
        if (waiting_.size() >= capacity_) {
          return ResourceExhausted("%d requests run and %d wait, the most that this router takes", running_,
                                   waiting_.size());
        }
        waiting_.emplace(ticket, std::move(admit));
        return ticket;
      }
      ++running_;
    }
    admit();
    return ticket;
  }

  uint32_t places() const { return places_; }
  uint32_t capacity() const { return capacity_; }

  // Takes a waiting one out; false when it was admitted already (Leave is then owed).
  bool Withdraw(const Ticket& ticket) {
    absl::MutexLock lock(&mutex_);
    return waiting_.erase(ticket) > 0;
  }

  // An admitted one has ended: the next moves up.
  void Leave() {
    std::function<void()> admit;
    {
      absl::MutexLock lock(&mutex_);
      if (waiting_.empty()) {
        --running_;
        return;
      }
      admit = std::move(waiting_.extract(waiting_.begin()).mapped());
    }
    admit();
  }

  uint32_t waiting() const {
    absl::MutexLock lock(&mutex_);
    return static_cast<uint32_t>(waiting_.size());
  }
  uint32_t running() const {
    absl::MutexLock lock(&mutex_);
    return running_;
  }

 private:
  const uint32_t places_;
  const uint32_t capacity_;
  const Duration aging_;
  const Clock* const clock_;
  mutable absl::Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Ticket, std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
