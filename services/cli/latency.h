#pragma once

// Time to first token and gaps between tokens, as the client saw them. Times are seconds of one clock.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace baton::cli {

// Linear between the two neighbours of the rank, `quantile` in [0, 1]; `values` need no order and must not be empty.
double Quantile(std::vector<double> values, double quantile);

struct GapSummary {
  size_t count = 0;
  double mean = 0, p50 = 0, p99 = 0;
};

class LatencyRecorder {
 public:
  explicit LatencyRecorder(double start) : start_(start) {}

  // `tokens` of one choice arrived together: the first after a gap, the others without one.
  void OnTokens(uint32_t choice, size_t tokens, double now);

  std::optional<double> time_to_first_token() const;
  // Of all choices; nullopt before any choice has two tokens.
  std::optional<GapSummary> gaps() const;

 private:
  const double start_;
  std::optional<double> first_;
  std::map<uint32_t, double> last_;  // by choice
  std::vector<double> gaps_;
};

}  // namespace baton::cli
