#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "services/cli/bench/statistics.h"
#include "services/cli/bench/trace.h"

namespace baton::cli {
namespace {

using ::testing::ElementsAre;

TEST(Statistics, MedianIsTheMiddleOrBetweenTheTwoMiddleOnes) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_TRUE(std::isnan(Median({})));
}

TEST(Statistics, DistributionOfTheFirstThousandNumbers) {
  std::vector<double> values(1001);
  std::iota(values.begin(), values.end(), 0.0);
  const Distribution d = Describe(values);
  EXPECT_EQ(d.count, 1001u);
  EXPECT_EQ(d.mean, 500);
  EXPECT_EQ(d.p50, 500);
  EXPECT_DOUBLE_EQ(d.p90, 900);
  EXPECT_DOUBLE_EQ(d.p99, 990);
  EXPECT_DOUBLE_EQ(d.p999, 999);
  EXPECT_EQ(d.max, 1000);
}

TEST(Statistics, ContendersAlternateAndTheWarmUpDoesNotCount) {
  std::string order;
  int round = 0;
  const std::vector<double> medians = AlternatingMedians(3, {[&] {
                                                               order += 'a';
                                                               return round == 0 ? 1000.0 : 1.0 * round;
                                                             },
                                                             [&] {
                                                               order += 'b';
                                                               return 10.0 * round++;
                                                             }});
  EXPECT_EQ(order, "abababab");
  EXPECT_THAT(medians, ElementsAre(2, 20));
}

RequestTrace TraceOf(double arrival, std::vector<double> token_times) {
  RequestTrace trace{.arrival = arrival, .token_times = std::move(token_times)};
  trace.end = trace.token_times.back();
  return trace;
}

TEST(Trace, TimesCountFromTheMomentTheRequestWasDue) {
  const std::vector<RequestTrace> traces = {TraceOf(1, {1.5, 1.6, 1.8}), TraceOf(2, {4, 4.5})};
  const TraceSummary summary = Summarize(traces);
  EXPECT_THAT(summary.first_token, ElementsAre(0.5, 2));
  EXPECT_THAT(summary.latency, ElementsAre(testing::DoubleEq(0.8), 2.5));
  EXPECT_EQ(summary.gaps.size(), 3u);
  EXPECT_EQ(summary.tokens, 5u);
  EXPECT_DOUBLE_EQ(summary.seconds, 3.5);
}

TEST(Trace, GoodputWantsBothObjectivesOfARequest) {
  std::vector<RequestTrace> traces = {TraceOf(0, {0.1, 0.2}), TraceOf(0, {0.9, 1.0}), TraceOf(0, {0.1, 0.8}),
                                      TraceOf(0, {0.1})};
  EXPECT_EQ(GoodShare(traces, 0.5, 0.3), 0.5);
  traces[0].status = absl::CancelledError("");
  EXPECT_EQ(GoodShare(traces, 0.5, 0.3), 0.25);
  EXPECT_EQ(Summarize(traces).failed, 1u);
  EXPECT_FALSE(FirstError(traces).ok());
}

}  // namespace
}  // namespace baton::cli
