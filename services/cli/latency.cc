#include "services/cli/latency.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace baton::cli {

double Quantile(std::vector<double> values, double quantile) {
  std::sort(values.begin(), values.end());
  const double rank = quantile * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(rank);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (rank - static_cast<double>(low)) * (values[high] - values[low]);
}

void LatencyRecorder::OnTokens(uint32_t choice, size_t tokens, double now) {
  if (tokens == 0) return;
  if (!first_) first_ = now;
  if (const auto last = last_.find(choice); last != last_.end()) gaps_.push_back(now - last->second);
  gaps_.insert(gaps_.end(), tokens - 1, 0.0);
  last_[choice] = now;
}

std::optional<double> LatencyRecorder::time_to_first_token() const {
  if (!first_) return std::nullopt;
  return *first_ - start_;
}

std::optional<GapSummary> LatencyRecorder::gaps() const {
  if (gaps_.empty()) return std::nullopt;
  const double sum = std::accumulate(gaps_.begin(), gaps_.end(), 0.0);
  return GapSummary{gaps_.size(), sum / static_cast<double>(gaps_.size()), Quantile(gaps_, 0.5), Quantile(gaps_, 0.99)};
}

}  // namespace baton::cli
