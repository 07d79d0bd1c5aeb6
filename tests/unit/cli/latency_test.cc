#include "services/cli/latency.h"

#include <gtest/gtest.h>

namespace baton::cli {
namespace {

TEST(Quantile, LiesBetweenItsNeighbours) {
  EXPECT_DOUBLE_EQ(Quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(Quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Quantile({0, 100}, 0.99), 99);
  EXPECT_DOUBLE_EQ(Quantile({7}, 0.99), 7);
}

TEST(LatencyRecorder, NothingBeforeTheFirstToken) {
  LatencyRecorder latency(10);
  latency.OnTokens(0, 0, 11);  // text that was held back, without a token
  EXPECT_FALSE(latency.time_to_first_token());
  EXPECT_FALSE(latency.gaps());
}

TEST(LatencyRecorder, TokensOfOneMessageHaveNoGap) {
  LatencyRecorder latency(10);
  latency.OnTokens(0, 1, 10.5);
  latency.OnTokens(0, 3, 10.8);
  ASSERT_TRUE(latency.gaps());
  EXPECT_DOUBLE_EQ(*latency.time_to_first_token(), 0.5);
  EXPECT_EQ(latency.gaps()->count, 3u);
  EXPECT_NEAR(latency.gaps()->mean, 0.1, 1e-9);
  EXPECT_DOUBLE_EQ(latency.gaps()->p50, 0);
}

TEST(LatencyRecorder, GapsLieWithinAChoice) {
  LatencyRecorder latency(0);
  latency.OnTokens(0, 1, 1);
  latency.OnTokens(1, 1, 5);
  EXPECT_FALSE(latency.gaps());
  latency.OnTokens(0, 1, 5);
  ASSERT_TRUE(latency.gaps());
  EXPECT_DOUBLE_EQ(latency.gaps()->mean, 4);
  EXPECT_DOUBLE_EQ(*latency.time_to_first_token(), 1);
}

}  // namespace
}  // namespace baton::cli
