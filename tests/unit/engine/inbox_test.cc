#include "common/engine/inbox.h"

#include <gtest/gtest.h>

#include "tests/fakes/engine_harness.h"

namespace baton {
namespace {

EngineRequest Request(uint64_t id) { return MakeRequest(id, MakePrompt(5, 1), 4, std::make_shared<RecordingSink>()); }

TEST(Inbox, RefusesWhenFullAndTakesMoreOnceTheStepThreadLooked) {
  Inbox inbox(2);
  EXPECT_TRUE(inbox.Submit(Request(1), {}).ok());
  EXPECT_TRUE(inbox.Submit(Request(2), {}).ok());
  EXPECT_EQ(inbox.Submit(Request(3), {}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(inbox.queued().requests, 2u);
  EXPECT_EQ(inbox.queued().prompt_tokens, 10u);
  EXPECT_EQ(inbox.Take(absl::ZeroDuration()).arrivals.size(), 2u);
  EXPECT_EQ(inbox.queued().requests, 0u);
  EXPECT_TRUE(inbox.Submit(Request(3), {}).ok());
}

TEST(Inbox, AnIdIsFreeAgainAfterItsEndAndRelease) {
  Inbox inbox(10);
  EXPECT_TRUE(inbox.Submit(Request(1), {}).ok());
  EXPECT_EQ(inbox.Submit(Request(1), {}).code(), absl::StatusCode::kInvalidArgument);
  inbox.Ended(1, /*held=*/true);
  EXPECT_EQ(inbox.Submit(Request(1), {}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(inbox.AwaitAllEnded(absl::ZeroDuration()));
  inbox.Released(1);
  EXPECT_TRUE(inbox.Submit(Request(1), {}).ok());
  inbox.Ended(1, /*held=*/false);
  EXPECT_TRUE(inbox.Submit(Request(1), {}).ok());
}

TEST(Inbox, ControlsAreMergedAndThoseOfUnknownRequestsDropped) {
  Inbox inbox(10);
  EXPECT_TRUE(inbox.Submit(Request(1), {}).ok());
  for (int i = 0; i < 1000; ++i) {
    inbox.Cancel(99);
    inbox.Release(98);
    inbox.CancelChoice(1, static_cast<uint32_t>(i % 3));
    inbox.Cancel(1);
  }
  const Inbox::Batch batch = inbox.Take(absl::ZeroDuration());
  ASSERT_EQ(batch.controls.size(), 1u);
  EXPECT_EQ(batch.controls[0].id, 1u);
  EXPECT_EQ(batch.controls[0].cancelled_choices, 7u);
  EXPECT_EQ(batch.controls[0].end.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(inbox.Take(absl::ZeroDuration()).controls.empty());
}

TEST(Inbox, StopWakesAndCloses) {
  Inbox inbox(10);
  inbox.Stop();
  EXPECT_TRUE(inbox.Take(absl::InfiniteDuration()).stop);
  EXPECT_EQ(inbox.Submit(Request(1), {}).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace baton
