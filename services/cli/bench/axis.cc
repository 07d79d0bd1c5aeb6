#include "services/cli/bench/axis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "services/cli/format.h"

namespace baton::cli {
namespace {

constexpr int kTicks = 6;

// The smallest of 1, 2, 5 times a power of ten that is not below `value`.
double RoundStep(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * 0.999) return factor * power;
  }
  return 10 * power;
}

}  // namespace

Axis::Axis(const std::vector<double>& values, bool logarithmic) : logarithmic_(logarithmic) {
  std::vector<double> known;
  for (const double value : values) {
    if (std::isfinite(value) && (!logarithmic || value > 0)) known.push_back(value);
  }
  double least = logarithmic ? 1 : 0, most = logarithmic ? 10 : 1;
  if (!known.empty()) {
    least = *std::min_element(known.begin(), known.end());
    most = *std::max_element(known.begin(), known.end());
  }
  if (logarithmic) {
    // Whole powers of two for what doubles (lengths, batches), of ten for what spans more.
    const double base = most / least > 300 ? 10 : 2;
    const double first = std::floor(std::log(least) / std::log(base) + 1e-9);
    const double last = std::max(first + 1, std::ceil(std::log(most) / std::log(base) - 1e-9));
    for (double exponent = first; exponent <= last; ++exponent) ticks_.push_back(std::pow(base, exponent));
    low_ = ticks_.front();
    high_ = ticks_.back();
    return;
  }
  if (least > 0 && least < 0.6 * most) least = 0;
  if (most - least < 1e-12 * std::max(1.0, std::fabs(most))) most = least + std::max(1.0, std::fabs(least));
  const double step = RoundStep((most - least) / kTicks);
  low_ = std::floor(least / step + 1e-9) * step;
  high_ = std::ceil(most / step - 1e-9) * step;
  for (int i = 0; low_ + i * step <= high_ + step / 2; ++i) ticks_.push_back(low_ + i * step);
}

double Axis::Place(double value) const {
  if (logarithmic_) return std::log(value / low_) / std::log(high_ / low_);
  return (value - low_) / (high_ - low_);
}

std::string TickLabel(double value) {
  const double size = std::fabs(value);
  if (size >= 1000 && size < 1e7 && size == std::floor(size)) {
    return (value < 0 ? "-" : "") + FormatCount(static_cast<uint64_t>(size));
  }
  return absl::StrFormat("%.4g", size < 1e-12 ? 0.0 : value);
}

}  // namespace baton::cli
