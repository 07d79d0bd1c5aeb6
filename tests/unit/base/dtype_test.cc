#include "common/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace baton {
namespace {

TEST(DType, EveryF16ValueSurvivesTheWayThroughF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = F32FromF16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F32FromF16(F16FromF32(value))));
    } else {
      EXPECT_EQ(F16FromF32(value), bits);
    }
  }
}

TEST(DType, F16RoundsToNearestEven) {
  EXPECT_EQ(F16FromF32(1.0f + 0x1p-11f), 0x3c00);            // halfway: to even
  EXPECT_EQ(F16FromF32(1.0f + 3 * 0x1p-11f), 0x3c02);        // halfway: to even, up
  EXPECT_EQ(F16FromF32(65519.0f), 0x7bff);                   // largest finite
  EXPECT_EQ(F16FromF32(65520.0f), 0x7c00);                   // infinity
  EXPECT_EQ(F16FromF32(0x1p-25f), 0x0000);                   // halfway below the smallest subnormal
  EXPECT_EQ(F16FromF32(std::nextafter(0x1p-25f, 1.0f)), 1);  // just above
}

TEST(DType, BF16RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(BF16FromF32(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(BF16FromF32(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(F32FromBF16(BF16FromF32(-2.5f)), -2.5f);
  EXPECT_TRUE(std::isnan(F32FromBF16(BF16FromF32(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(DType, BytesCountBlocks) {
  EXPECT_EQ(BytesOf(DType::kBF16, 10), 20u);
  EXPECT_EQ(BytesOf(DType::kQ4_K, 512), 288u);
}

}  // namespace
}  // namespace baton
