#pragma once

// exp and log from additions, multiplications and divisions only, each rounded as IEEE 754 says: the same bits on every
// machine, whatever its libm or the width of its SIMD unit, and on a device.

#include <bit>
#include <cstdint>

#include "common/base/host_device.h"

namespace baton {

// Below this, exp(x) < 2^-40 and counts as zero (see WeightMass).
inline constexpr float kSmallestExponent = -28.0f;

// exp(x) for x <= 0, in [0, 1]; exactly 1 for 0 and exactly 0 below kSmallestExponent. Relative error under 3e-7.
BATON_HOST_DEVICE float ExpNonPositive(float x) {
  const float clamped = x < kSmallestExponent ? kSmallestExponent : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits
  const float n = (clamped * 1.44269504f + kRound) - kRound;
  // ln 2 in two parts; the first has few enough bits for n times it to be exact.
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  // Taylor series to r^7: |r| <= ln(2) / 2, so the first term left out is under 6e-9.
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const float scale = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  const float value = sum * scale;
  return x < kSmallestExponent ? 0.0f : value > 1.0f ? 1.0f : value;
}

// ln(x) for finite normal x > 0. Relative error a few ulp.
BATON_HOST_DEVICE double Log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum + exponent * 0.6931471805599453;
}

}  // namespace baton
