#pragma once

// Seeded test data and exact comparison. With BATON_TEST_SEED in the environment the data is another one.

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "common/base/dtype.h"

namespace baton {

inline uint32_t TestSeed() {
  const char* seed = std::getenv("BATON_TEST_SEED");
  return seed == nullptr ? 0 : static_cast<uint32_t>(std::strtoul(seed, nullptr, 10));
}

inline std::vector<float> RandomFloats(size_t count, uint32_t seed, float scale = 1.0f) {
  std::mt19937 generator(seed + TestSeed());
  std::vector<float> values(count);
  for (float& value : values) value = (static_cast<float>(generator() >> 8) * 0x1p-23f - 1.0f) * scale;
  return values;
}

inline float Rounded(DType dtype, float value) {
  if (dtype == DType::kF16) return F32FromF16(F16FromF32(value));
  if (dtype == DType::kBF16) return F32FromBF16(BF16FromF32(value));
  return value;
}

inline std::vector<float> Rounded(DType dtype, std::vector<float> values) {
  for (float& value : values) value = Rounded(dtype, value);
  return values;
}

// Index of the first element whose bits differ, or -1.
inline int64_t FirstDifference(const float* a, const float* b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

inline void ExpectSameBits(const float* actual, const float* expected, size_t count) {
  const int64_t i = FirstDifference(actual, expected, count);
  if (i >= 0) ADD_FAILURE() << "element " << i << " of " << count << ": " << actual[i] << ", not " << expected[i];
}

}  // namespace baton
