#include "common/routing/admission_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton {
namespace {

TEST(AdmissionQueue, LowerPriorityNumbersThenEarlierArrivalsGoFirst) {
  const FakeClock clock;
  AdmissionQueue queue(1, 10, Duration::zero(), &clock);
  std::string order;
  ASSERT_TRUE(queue.Enter(0, [&] { order += 'a'; }).ok());
  ASSERT_TRUE(queue.Enter(5, [&] { order += 'b'; }).ok());
  ASSERT_TRUE(queue.Enter(0, [&] { order += 'c'; }).ok());
  ASSERT_TRUE(queue.Enter(0, [&] { order += 'd'; }).ok());
  EXPECT_EQ(order, "a");
  for (int i = 0; i < 3; ++i) queue.Leave();
  EXPECT_EQ(order, "acdb");
  queue.Leave();
  EXPECT_EQ(queue.running(), 0u);
}

TEST(AdmissionQueue, AFullQueueRefusesAtOnceWithTheNumbers) {
  const FakeClock clock;
  AdmissionQueue queue(1, 1, Duration::zero(), &clock);
  ASSERT_TRUE(queue.Enter(0, [] {}).ok());
  ASSERT_TRUE(queue.Enter(0, [] {}).ok());
  const auto refused = queue.Enter(-100, [] { FAIL(); });
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status().message(), "1 requests run and 1 wait, the most that this router takes");
}

TEST(AdmissionQueue, AWithdrawnOneIsNeverAdmittedAndFreesItsPlaceInTheQueue) {
  const FakeClock clock;
  AdmissionQueue queue(1, 1, Duration::zero(), &clock);
  const auto running = queue.Enter(0, [] {});
  const auto waiting = queue.Enter(0, [] { FAIL(); });
  EXPECT_FALSE(queue.Withdraw(*running));
  EXPECT_TRUE(queue.Withdraw(*waiting));
  EXPECT_FALSE(queue.Withdraw(*waiting));
  EXPECT_TRUE(queue.Enter(0, [] {}).ok());
  queue.Leave();
  queue.Leave();
  EXPECT_EQ(queue.running(), 0u);
  EXPECT_EQ(queue.waiting(), 0u);
}

TEST(AdmissionQueue, WaitingIsWorthPriority) {
  FakeClock clock;
  AdmissionQueue queue(1, 10, std::chrono::seconds(2), &clock);
  std::string order;
  const auto enter = [&](int32_t priority, char name) {
    ASSERT_TRUE(queue.Enter(priority, [&order, name] { order += name; }).ok());
  };
  enter(0, 'a');  // takes the place
  enter(3, 'b');  // three levels: six seconds
  clock.Advance(std::chrono::seconds(5));
  enter(0, 'c');
  clock.Advance(std::chrono::seconds(2));
  enter(0, 'd');
  for (int i = 0; i < 3; ++i) queue.Leave();
  EXPECT_EQ(order, "acbd");
}

TEST(AdmissionQueue, EndlessUrgentArrivalsDoNotStarveTheLeastUrgent) {
  FakeClock clock;
  AdmissionQueue queue(1, 1000, std::chrono::milliseconds(10), &clock);
  bool admitted = false;
  ASSERT_TRUE(queue.Enter(-100, [] {}).ok());
  ASSERT_TRUE(queue.Enter(100, [&] { admitted = true; }).ok());
  int rounds = 0;
  for (; !admitted && rounds < 1000; ++rounds) {
    clock.Advance(std::chrono::milliseconds(10));
    ASSERT_TRUE(queue.Enter(-100, [] {}).ok());
    queue.Leave();
  }
  EXPECT_EQ(rounds, 200);  // those of 200 levels
}

}  // namespace
}  // namespace baton
