#include "services/cli/bench/statistics.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "services/cli/latency.h"

namespace baton::cli {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double Percentile(const std::vector<double>& values, double percent) {
  return values.empty() ? kNone : Quantile(values, percent / 100);
}

double Median(std::vector<double> values) { return Percentile(values, 50); }

double Mean(const std::vector<double>& values) {
  if (values.empty()) return kNone;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Distribution Describe(const std::vector<double>& values) {
  return {.count = values.size(),
          .mean = Mean(values),
          .p50 = Percentile(values, 50),
          .p90 = Percentile(values, 90),
          .p99 = Percentile(values, 99),
          .p999 = Percentile(values, 99.9),
          .max = values.empty() ? kNone : *std::max_element(values.begin(), values.end())};
}

double SecondsOf(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<double> AlternatingMedians(int repetitions, const std::vector<std::function<double()>>& contenders) {
  std::vector<std::vector<double>> measured(contenders.size());
  for (int round = -1; round < repetitions; ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      const double value = contenders[i]();
      if (round >= 0) measured[i].push_back(value);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& values : measured) medians.push_back(Median(std::move(values)));
  return medians;
}

}  // namespace baton::cli
