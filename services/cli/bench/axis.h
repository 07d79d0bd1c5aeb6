#pragma once

// A chart's axis: from values to a place on it, and the values worth a mark.

#include <string>
#include <vector>

namespace baton::cli {

class Axis {
 public:
  // Covers `values` and, unless logarithmic, zero when it is near. Values at or below zero do not count on a
  // logarithmic axis. No value at all gives 0 to 1 (1 to 10).
  Axis(const std::vector<double>& values, bool logarithmic);

  // 0 at the axis' beginning, 1 at its end; outside for values that it does not cover.
  double Place(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  const bool logarithmic_;
  double low_ = 0, high_ = 1;
  std::vector<double> ticks_;
};

// "0.25", "1,024", "2e+07".
std::string TickLabel(double value);

}  // namespace baton::cli
