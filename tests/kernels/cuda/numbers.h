#pragma once

// Test data in the formats of the CUDA kernels, and comparison with a tolerance for each.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "common/base/dtype.h"
#include "tests/kernels/random_floats.h"

namespace baton {

inline constexpr DType kActivationFormats[] = {DType::kF32, DType::kF16, DType::kBF16};

inline std::vector<std::byte> Encode(DType dtype, const std::vector<float>& values) {
  const size_t size = BlockOf(dtype).bytes;
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = dtype == DType::kF16 ? F16FromF32(values[i]) : BF16FromF32(values[i]);
    const void* from = &half;
    if (dtype == DType::kF32) from = &values[i];
    std::memcpy(bytes.data() + i * size, from, size);
  }
  return bytes;
}

inline std::vector<float> Decode(DType dtype, const std::byte* bytes, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    if (dtype == DType::kF32) {
      std::memcpy(&values[i], bytes + i * 4, 4);
    } else {
      uint16_t half;
      std::memcpy(&half, bytes + i * 2, 2);
      values[i] = dtype == DType::kF16 ? F32FromF16(half) : F32FromBF16(half);
    }
  }
  return values;
}

// Largest error of a result that is rounded once to `dtype`, relative to its size.
inline float RoundingOf(DType dtype) {
  return dtype == DType::kF32 ? 2e-6f : dtype == DType::kF16 ? 0x1p-10f : 0x1p-7f;
}

// Each within `factor` roundings of its format, of itself or of `size` where it is smaller than that.
inline void ExpectClose(DType dtype, const std::vector<float>& actual, const std::vector<float>& expected,
                        float factor = 1.0f, float size = 0.1f) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const float allowed = factor * RoundingOf(dtype) * std::max(std::abs(expected[i]), size);
    if (!(std::abs(actual[i] - expected[i]) <= allowed)) {
      ADD_FAILURE() << DTypeName(dtype) << " element " << i << " of " << actual.size() << ": " << actual[i] << ", not "
                    << expected[i];
      return;
    }
  }
}

}  // namespace baton
