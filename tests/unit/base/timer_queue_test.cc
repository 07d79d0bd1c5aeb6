#include "common/base/timer_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/synchronization/notification.h"

namespace baton {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

// Timers whose thread is busy until Open: what is scheduled before fires afterwards, however slow the machine.
class HeldTimers {
 public:
  HeldTimers() {
    timers_.Schedule(Duration::zero(), [this] {
      entered_.Notify();
      open_.WaitForNotification();
    });
    entered_.WaitForNotification();
  }
  TimerQueue* operator->() { return &timers_; }
  void Open() { open_.Notify(); }

 private:
  absl::Notification entered_, open_;
  TimerQueue timers_;  // last: its thread uses the rest
};

TEST(TimerQueue, FiresInOrderOfTimeNotOfScheduling) {
  std::vector<int> order;  // written by the timer thread, read after `done`
  absl::Notification done;
  HeldTimers held;
  held->Schedule(-std::chrono::hours(1), [&] { order.push_back(3); });
  held->Schedule(-std::chrono::hours(2), [&] { order.push_back(2); });
  held->Schedule(std::chrono::milliseconds(1), [&] { done.Notify(); });
  held->Schedule(-std::chrono::hours(3), [&] { order.push_back(1); });
  held.Open();
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(TimerQueue, ACancelledTimerNeverFires) {
  absl::Notification done;
  HeldTimers held;
  const auto id = held->Schedule(-std::chrono::hours(1), [&] { FAIL(); });
  held->Schedule(std::chrono::milliseconds(1), [&] { done.Notify(); });
  held->Cancel(id);
  held.Open();
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(kPatience));
}

TEST(TimerQueue, ACallbackMayScheduleTheNext) {
  TimerQueue timers;
  absl::Notification done;
  timers.Schedule(Duration::zero(), [&] { timers.Schedule(Duration::zero(), [&] { done.Notify(); }); });
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(kPatience));
}

}  // namespace
}  // namespace baton
