#include "common/base/timer_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/synchronization/notification.h"

namespace baton {
namespace {

TEST(TimerQueue, FiresInOrderOfTimeNotOfScheduling) {
  TimerQueue timers;
  std::vector<int> order;  // written by the timer thread, read after `done`
  absl::Notification done;
  timers.Schedule(std::chrono::milliseconds(30), [&] {
    order.push_back(3);
    done.Notify();
  });
  timers.Schedule(std::chrono::milliseconds(20), [&] { order.push_back(2); });
  timers.Schedule(std::chrono::milliseconds(0), [&] { order.push_back(1); });
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(TimerQueue, ACancelledTimerNeverFires) {
  TimerQueue timers;
  absl::Notification done;
  const auto id = timers.Schedule(std::chrono::milliseconds(20), [&] { FAIL(); });
  timers.Schedule(std::chrono::milliseconds(40), [&] { done.Notify(); });
  timers.Cancel(id);
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(20)));
}

TEST(TimerQueue, ACallbackMayScheduleTheNext) {
  TimerQueue timers;
  absl::Notification done;
  timers.Schedule(Duration::zero(), [&] { timers.Schedule(Duration::zero(), [&] { done.Notify(); }); });
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(20)));
}

}  // namespace
}  // namespace baton
