#include "common/telemetry/metrics.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(Metrics, ConstantLabelsStandOnEverySeriesAndCollectorsRunBeforeAScrape) {
  Metrics metrics(MetricLabels{{"model", "demo"}});
  prometheus::Gauge& gauge = metrics.Gauge("baton_kv_blocks", "KV blocks by state.", {{"state", "free"}});
  metrics.OnScrape([&] { gauge.Set(12); });
  EXPECT_NE(metrics.Render().find("baton_kv_blocks{model=\"demo\",state=\"free\"} 12"), std::string::npos)
      << metrics.Render();
}

TEST(Metrics, TheSameNameAndLabelsGiveTheSameMetric) {
  Metrics metrics(MetricLabels{});
  metrics.Counter("baton_x_total", "X.", {{"reason", "a"}}).Increment();
  metrics.Counter("baton_x_total", "X.", {{"reason", "a"}}).Increment();
  EXPECT_NE(metrics.Render().find("baton_x_total{reason=\"a\"} 2"), std::string::npos) << metrics.Render();
}

TEST(Metrics, ServesOnAFreePortAndRefusesATakenOne) {
  Metrics first(MetricLabels{}), second(MetricLabels{});
  const auto port = first.Serve("127.0.0.1", 0);
  ASSERT_TRUE(port.ok());
  EXPECT_GT(*port, 0);
  EXPECT_EQ(second.Serve("127.0.0.1", *port).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace baton
