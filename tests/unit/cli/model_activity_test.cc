#include "services/cli/model_activity.h"

#include <gmock/gmock.h>

namespace baton::cli {
namespace {

using testing::HasSubstr;

v1::Histogram MakeHistogram(std::vector<uint64_t> counts) {
  v1::Histogram histogram;
  for (const double bound : {0.1, 0.2, 0.4}) histogram.add_upper_bounds(bound);
  for (const uint64_t count : counts) histogram.add_counts(count);
  return histogram;
}

WorkerSnapshot MakeSnapshot(double seconds, std::vector<uint64_t> counts, uint64_t ok, uint64_t tokens) {
  WorkerSnapshot snapshot;
  snapshot.seconds = seconds;
  v1::ModelActivity* model = snapshot.workers.add_models();
  model->set_model("demo");
  *model->mutable_time_to_first_token() = MakeHistogram(counts);
  model->set_requests_ok(ok);
  model->set_generated_tokens(tokens);
  return snapshot;
}

TEST(HistogramChange, QuantilesAreLinearWithinABucketAsPrometheusHasThem) {
  const HistogramChange change(MakeHistogram({10, 10, 0, 0}), nullptr);
  EXPECT_EQ(change.count, 20u);
  EXPECT_DOUBLE_EQ(*change.Quantile(0.25), 0.05);
  EXPECT_DOUBLE_EQ(*change.Quantile(0.5), 0.1);
  EXPECT_DOUBLE_EQ(*change.Quantile(0.75), 0.15);
  EXPECT_DOUBLE_EQ(*change.Quantile(1), 0.2);
}

TEST(HistogramChange, BeyondTheLastBoundItIsThatBound) {
  EXPECT_DOUBLE_EQ(*HistogramChange(MakeHistogram({0, 0, 0, 5}), nullptr).Quantile(0.5), 0.4);
}

TEST(HistogramChange, CountsOnlyWhatCameSinceTheLookBefore) {
  const v1::Histogram before = MakeHistogram({100, 0, 0, 0}), now = MakeHistogram({100, 0, 8, 0});
  const HistogramChange change(now, &before);
  EXPECT_EQ(change.count, 8u);
  EXPECT_DOUBLE_EQ(*change.Quantile(0.5), 0.3);
  EXPECT_FALSE(HistogramChange(now, &now).Quantile(0.5));
}

TEST(HistogramChange, ARestartedRouterCountsFromItsStart) {
  const v1::Histogram before = MakeHistogram({100, 0, 0, 0}), now = MakeHistogram({0, 2, 0, 0});
  EXPECT_EQ(HistogramChange(now, &before).count, 2u);
}

TEST(HistogramChange, ARouterThatSendsNoneHasNone) {
  EXPECT_FALSE(HistogramChange(v1::Histogram(), nullptr).Quantile(0.5));
}

TEST(ModelLines, ShowLatenciesAndRates) {
  const WorkerSnapshot before = MakeSnapshot(10, {0, 0, 0, 0}, 4, 100), now = MakeSnapshot(20, {10, 10, 0, 0}, 24, 500);
  const std::vector<std::string> lines = ModelLines(now, before);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("TTFT p50 / p90 / p99"));
  EXPECT_THAT(lines[1], HasSubstr("100.0 ms / 180.0 ms / 198.0 ms"));
  EXPECT_THAT(lines[1], HasSubstr("2.0"));
  EXPECT_THAT(lines[1], HasSubstr("40.0"));
}

TEST(ModelsJson, HasRatesOnlyAfterTwoLooks) {
  const WorkerSnapshot before = MakeSnapshot(10, {0, 0, 0, 0}, 4, 100), now = MakeSnapshot(20, {10, 10, 0, 0}, 24, 500);
  const auto first = ModelsJson(now, std::nullopt)[0];
  EXPECT_FALSE(first.contains("generated_tokens_per_second"));
  EXPECT_EQ(first["time_to_first_token_seconds"]["count"], 20);
  const auto second = ModelsJson(now, before)[0];
  EXPECT_EQ(second["generated_tokens_per_second"], 40.0);
  EXPECT_EQ(second["time_to_first_token_seconds"]["p50"], 0.1);
  EXPECT_FALSE(second["inter_token_latency_seconds"].contains("p50"));
}

}  // namespace
}  // namespace baton::cli
