#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "services/cli/bench/statistics.h"
#include "services/cli/bench/workload.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;

TEST(Workload, PoissonArrivalsHaveTheRateAndTheSpreadOfTheProcess) {
  Draw draw(7);
  const std::vector<double> arrivals = PoissonArrivals(4.0, 20'000, &draw);
  ASSERT_EQ(arrivals.size(), 20'000u);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  std::vector<double> gaps = {arrivals.front()};
  for (size_t i = 1; i < arrivals.size(); ++i) gaps.push_back(arrivals[i] - arrivals[i - 1]);
  // Exponential: the deviation equals the mean, the median is ln 2 of it. Errors at this size are about 1%.
  EXPECT_NEAR(Mean(gaps), 0.25, 0.01);
  EXPECT_NEAR(Median(gaps), 0.25 * std::log(2), 0.01);
  double squares = 0;
  for (const double gap : gaps) squares += (gap - 0.25) * (gap - 0.25);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(gaps.size())), 0.25, 0.015);
}

TEST(Workload, EqualSeedsDrawEqualRequests) {
  Draw a(3), b(3), c(4);
  EXPECT_EQ(a.Prompt(50, 1000), b.Prompt(50, 1000));
  EXPECT_EQ(PoissonArrivals(1, 10, &a), PoissonArrivals(1, 10, &b));
  EXPECT_NE(a.Prompt(50, 1000), c.Prompt(50, 1000));
}

TEST(Workload, DrawnNumbersStayWithinTheirBounds) {
  Draw draw(1);
  for (int i = 0; i < 1000; ++i) {
    const double uniform = draw.Uniform();
    EXPECT_TRUE(uniform >= 0 && uniform < 1);
    const uint32_t number = draw.Between(3, 5);
    EXPECT_TRUE(number >= 3 && number <= 5);
  }
  for (const TokenId id : draw.Prompt(1000, 100)) EXPECT_TRUE(id >= 0 && id < 100);
}

TEST(Workload, TracesAreReadInOrderOfArrival) {
  Draw draw(1);
  const auto requests = ParseTrace("# time prompt tokens\n1.5 20 3\n\n0.5,10,2  # early\n", 300, &draw);
  ASSERT_TRUE(requests.ok()) << requests.status();
  ASSERT_EQ(requests->size(), 2u);
  EXPECT_EQ((*requests)[0].arrival, 0.5);
  EXPECT_EQ((*requests)[0].prompt.size(), 10u);
  EXPECT_EQ((*requests)[1].max_tokens, 3u);
}

TEST(Workload, WrongLinesOfATraceAreNamed) {
  for (const char* line : {"1 2", "1 2 3 4", "x 2 3", "-1 2 3", "1 0 3", "1 2 0", "nan 2 3", "1 2 99999999"}) {
    Draw draw(1);
    const auto requests = ParseTrace(std::string("0 1 1\n") + line + "\n", 300, &draw);
    EXPECT_THAT(StatusMessage(requests.status()), HasSubstr("line 2")) << line;
  }
  Draw draw(1);
  EXPECT_FALSE(ParseTrace("# nothing\n", 300, &draw).ok());
}

}  // namespace
}  // namespace baton::cli
