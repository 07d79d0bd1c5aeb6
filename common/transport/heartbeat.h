#pragma once

// When to send a heartbeat and when silence makes a peer suspect. Plain arithmetic on times that the caller passes in.

#include <algorithm>
#include <utility>

#include "common/base/clock.h"

namespace baton {

class Heartbeat {
 public:
  Heartbeat(Duration interval, Duration suspect_after, TimePoint now)
      : interval_(interval), suspect_after_(suspect_after), last_heard_(now), next_send_(now + interval) {}

  // Something arrived; true when that ends a suspicion.
  bool Heard(TimePoint now) {
    last_heard_ = now;
    return std::exchange(suspect_, false);
  }
  // True once for each silence that has lasted too long.
  bool BecameSuspect(TimePoint now) {
    if (suspect_ || now - last_heard_ < suspect_after_) return false;
    suspect_ = true;
    return true;
  }
  // True when a heartbeat is due; the next one is then an interval away.
  bool Due(TimePoint now) {
    if (now < next_send_) return false;
    next_send_ = now + interval_;
    return true;
  }
  bool suspect() const { return suspect_; }
  TimePoint NextDeadline() const { return suspect_ ? next_send_ : std::min(next_send_, last_heard_ + suspect_after_); }

 private:
  Duration interval_, suspect_after_;
  TimePoint last_heard_, next_send_;
  bool suspect_ = false;
};

}  // namespace baton
