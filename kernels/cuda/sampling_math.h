#pragma once

// common/sampling's arithmetic on the device, operation by operation: fixed_math.h, philox.h, weights.h. It may not be
// contracted (-fmad=false). A test compares both.

#include <cstdint>

#include "kernels/cuda/primitives.h"

namespace baton::cuda {

#if defined(__CUDACC__)
__device__ __forceinline__ uint32_t FloatBits(float value) { return __float_as_uint(value); }
__device__ __forceinline__ float BitsFloat(uint32_t bits) { return __uint_as_float(bits); }
__device__ __forceinline__ uint64_t DoubleBits(double value) {
  return static_cast<uint64_t>(__double_as_longlong(value));
}
__device__ __forceinline__ double BitsDouble(uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}
#else
inline uint32_t FloatBits(float value) { return std::bit_cast<uint32_t>(value); }
inline float BitsFloat(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint64_t DoubleBits(double value) { return std::bit_cast<uint64_t>(value); }
inline double BitsDouble(uint64_t bits) { return std::bit_cast<double>(bits); }
#endif

__device__ __forceinline__ float ExpNonPositive(float x) {
  constexpr float kSmallest = -28.0f, kRound = 12582912.0f;
  const float clamped = x < kSmallest ? kSmallest : x;
  const float n = (clamped * 1.44269504f + kRound) - kRound;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const float value = sum * BitsFloat(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23);
  return x < kSmallest ? 0.0f : value < 1.0f ? value : 1.0f;
}

__device__ __forceinline__ double Log(double x) {
  const uint64_t bits = DoubleBits(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = BitsDouble((bits & 0xFFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum + exponent * 0.6931471805599453;
}

inline constexpr float kMassUnit = 1099511627776.0f;                 // 2^40
inline constexpr uint32_t kSmallestWeightBits = (127u - 40u) << 23;  // of 2^-40

__device__ __forceinline__ uint64_t WeightMass(float weight) { return static_cast<uint64_t>(weight * kMassUnit); }

__device__ __forceinline__ uint64_t TokenRandom(uint64_t seed, uint32_t choice_index, uint32_t token_index) {
  uint32_t c0 = choice_index, c1 = token_index, c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * c0, product1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return uint64_t{c1} << 32 | c0;
}

}  // namespace baton::cuda
