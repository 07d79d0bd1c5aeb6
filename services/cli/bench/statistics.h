#pragma once

// What benches make of repeated measurements.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace baton::cli {

// Of no values: NaN, which tables show as "-".
double Median(std::vector<double> values);
double Mean(const std::vector<double>& values);
double Percentile(const std::vector<double>& values, double percent);

struct Distribution {
  size_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};
Distribution Describe(const std::vector<double>& values);

// Seconds that one call takes.
double SecondsOf(const std::function<void()>& body);

// One number for each contender, as a ratio must be made: a round of warm-up, then `repetitions` rounds in which every
// contender runs once, in turn, so that a machine that changes its speed changes it for all. Medians, in the order of
// the contenders; each returns what it measured.
std::vector<double> AlternatingMedians(int repetitions, const std::vector<std::function<double()>>& contenders);

}  // namespace baton::cli
