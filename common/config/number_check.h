#pragma once

// What a flag's number may be, as checks of CLI11 options. CLI11 alone cuts whole numbers beyond 64 bits, takes -1 for
// the largest unsigned one, reads 010 as eight, and lets "nan" through any range.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace baton {

// Decimal digits, with a minus sign where `low` is negative, from `low` to `high`; the limits show in --help.
CLI::Validator WholeNumberCheck(int64_t low, uint64_t high);
// A finite number from `low` to `high`.
CLI::Validator RealNumberCheck(double low, double high);

// Whatever fits into T.
template <typename T>
CLI::Validator WholeNumberCheck() {
  static_assert(std::is_integral_v<T>);
  CLI::Validator check = WholeNumberCheck(std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  return check.description("");
}

}  // namespace baton
