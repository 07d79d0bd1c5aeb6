#include "common/routing/admission_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton {
namespace {

TEST(AdmissionQueue, LowerPriorityNumbersThenEarlierArrivalsGoFirst) {
  AdmissionQueue queue(1, 10);
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
  AdmissionQueue queue(1, 1);
  ASSERT_TRUE(queue.Enter(0, [] {}).ok());
  ASSERT_TRUE(queue.Enter(0, [] {}).ok());
  const auto refused = queue.Enter(-100, [] { FAIL(); });
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status().message(), "1 requests run and 1 wait, the most that this router takes");
}

TEST(AdmissionQueue, AWithdrawnOneIsNeverAdmittedAndFreesItsPlaceInTheQueue) {
  AdmissionQueue queue(1, 1);
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

}  // namespace
}  // namespace baton
