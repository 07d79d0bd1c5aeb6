#include "common/weights/encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/weights/dequantize.h"

namespace baton::weights {
namespace {

std::vector<float> RoundTrip(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(BytesOf(dtype, values.size()));
  Encode(dtype, values.data(), values.size(), bytes.data());
  std::vector<float> out(values.size());
  Dequantize(dtype, bytes.data(), values.size(), out.data());
  return out;
}

std::vector<float> Wave(float size) {
  std::vector<float> values(96);
  for (size_t i = 0; i < values.size(); ++i) values[i] = size * std::sin(static_cast<float>(i * i));
  return values;
}

TEST(Encode, SmallIntegersTimesAPowerOfTwoStayExact) {
  std::vector<float> values(64);
  for (int i = 0; i < 64; ++i) values[i] = static_cast<float>(i * 4 - 127) * 0x1p-9f;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
    EXPECT_EQ(RoundTrip(dtype, values), values) << DTypeName(dtype);
  }
}

TEST(Encode, Q8_0ErrsByHalfAStepAtMost) {
  for (const float size : {1e-3f, 1.0f, 300.0f}) {
    const std::vector<float> values = Wave(size), out = RoundTrip(DType::kQ8_0, values);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(out[i], values[i], size / 127) << i;
  }
}

TEST(Encode, Q4_0ErrsByOneStepAtMostAndKeepsTheLargestValue) {
  const std::vector<float> values = Wave(2.0f), out = RoundTrip(DType::kQ4_0, values);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(out[i], values[i], 2.0f / 8 * 1.01f) << i;
  std::vector<float> one(32, 0.0f);
  one[20] = 1.5f;
  EXPECT_EQ(RoundTrip(DType::kQ4_0, one), one);
  one[3] = -7.0f;
  EXPECT_EQ(RoundTrip(DType::kQ4_0, one)[3], -7.0f);
}

TEST(Encode, ZerosStayZeros) {
  const std::vector<float> zeros(32, 0.0f);
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0}) EXPECT_EQ(RoundTrip(dtype, zeros), zeros);
}

}  // namespace
}  // namespace baton::weights
