#include "common/base/fixed_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/philox.h"

namespace baton {
namespace {

// Known answers of the Random123 distribution.
TEST(Philox, KnownAnswers) {
  using Bits = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Bits{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Bits{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Bits{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(FixedMath, ExpAndLogAreAccurate) {
  EXPECT_EQ(ExpNonPositive(0.0f), 1.0f);
  EXPECT_EQ(ExpNonPositive(-29.0f), 0.0f);
  EXPECT_EQ(ExpNonPositive(-std::numeric_limits<float>::infinity()), 0.0f);
  for (float x = -28.0f; x < 0; x += 0.00137f) {
    ASSERT_NEAR(ExpNonPositive(x) / std::exp(static_cast<double>(x)), 1.0, 3e-7) << x;
  }
  for (double x = 1e-6; x < 1e7; x *= 1.0137)
    ASSERT_NEAR(Log(x), std::log(x), 1e-14 * std::max(1.0, std::abs(std::log(x))));
}

}  // namespace
}  // namespace baton
