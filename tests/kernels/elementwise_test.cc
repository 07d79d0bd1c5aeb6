#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/kv_store.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "tests/kernels/random_floats.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/targets.h"

namespace baton {
namespace {

// "Every target" means something: the vector units that this machine has are among them.
TEST(Targets, AreThoseOfTheMachine) {
  std::vector<std::string> names;
  ForEveryTarget([&] { names.emplace_back(hwy::TargetName(hwy::SupportedTargets())); });
#if defined(__x86_64__)
  EXPECT_THAT(names, testing::Contains("SCALAR"));
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_THAT(names, testing::Contains("AVX2"));
  }
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    EXPECT_THAT(names, testing::Contains("AVX3"));
  }
#elif defined(__aarch64__)
  EXPECT_THAT(names, testing::Contains("NEON"));
#endif
}

TEST(RmsNorm, EqualsTheReferenceBitForBitOnEveryTarget) {
  constexpr int64_t kRows = 3;
  constexpr float kEps = 1e-6f;
  for (const int64_t width : {1, 8, 15, 16, 17, 64, 100, 896}) {
    SCOPED_TRACE(width);
    const std::vector<float> x = RandomFloats(kRows * width, 1, 4.0f), weight = RandomFloats(width, 2);
    ForEveryTarget([&] {
      std::vector<float> y(kRows * width);
      cpu::RmsNorm(x.data(), width, weight.data(), kEps, kRows, width, y.data(), width);
      for (int64_t row = 0; row < kRows; ++row) {
        const std::vector<float> expected = reference::RmsNorm(x.data() + row * width, weight, kEps);
        ExpectSameBits(y.data() + row * width, expected.data(), expected.size());
      }
    });
  }
}

TEST(RmsNorm, AddsTheDeltaToTheResidualStreamFirst) {
  constexpr int64_t kRows = 2, kWidth = 50, kDeltaStride = 64;
  const std::vector<float> before = RandomFloats(kRows * kWidth, 1), delta = RandomFloats(kRows * kDeltaStride, 2),
                           weight = RandomFloats(kWidth, 3);
  ForEveryTarget([&] {
    std::vector<float> hidden = before, y(kRows * kWidth);
    cpu::AddRmsNorm(hidden.data(), delta.data(), kDeltaStride, weight.data(), 1e-5f, kRows, kWidth, y.data());
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < kWidth; ++i) {
        ASSERT_EQ(hidden[row * kWidth + i], before[row * kWidth + i] + delta[row * kDeltaStride + i]);
      }
      const std::vector<float> expected = reference::RmsNorm(hidden.data() + row * kWidth, weight, 1e-5f);
      ExpectSameBits(y.data() + row * kWidth, expected.data(), kWidth);
    }
  });
}

TEST(Rope, EqualsTheReferenceBitForBitOnEveryTarget) {
  constexpr int64_t kHeads = 3;
  for (const int64_t head_dim : {2, 6, 16, 64, 80, 128}) {
    SCOPED_TRACE(head_dim);
    const std::vector<float> cosine = RandomFloats(head_dim / 2, 1), sine = RandomFloats(head_dim / 2, 2);
    const std::vector<float> x = RandomFloats(kHeads * head_dim, 3);
    std::vector<float> expected = x;
    for (int64_t head = 0; head < kHeads; ++head) {
      reference::Rope(cosine, sine, expected.data() + head * head_dim, head_dim);
    }
    ForEveryTarget([&] {
      std::vector<float> y = x;
      cpu::Rope(cosine.data(), sine.data(), kHeads, head_dim, y.data());
      ExpectSameBits(y.data(), expected.data(), expected.size());
    });
  }
}

TEST(Rope, AnglesAreThoseOfTheMathLibrary) {
  const std::vector<float> frequencies = {1.0f, 0.31622776f, 0.01f, 1e-4f, 3e-7f};
  for (const int64_t position : {0, 1, 2, 3, 7, 100, 4095, 32767, 131071, 1000000}) {
    std::vector<float> cosine(5), sine(5);
    cpu::RopeAngles(position, frequencies.data(), 5, 1.25f, cosine.data(), sine.data());
    for (size_t i = 0; i < 5; ++i) {
      const double angle = static_cast<float>(position) * frequencies[i];
      EXPECT_NEAR(cosine[i], 1.25 * std::cos(angle), 2e-7) << position << " " << i;
      EXPECT_NEAR(sine[i], 1.25 * std::sin(angle), 2e-7) << position << " " << i;
    }
  }
}

TEST(SwiGlu, EqualsTheReferenceBitForBitOnEveryTarget) {
  for (const int64_t width : {1, 15, 16, 50, 4864}) {
    SCOPED_TRACE(width);
    const std::vector<float> gate = RandomFloats(width, 1, 30.0f), up = RandomFloats(width, 2, 30.0f);
    ForEveryTarget([&] {
      std::vector<float> y(width);
      cpu::SwiGlu(gate.data(), up.data(), width, y.data());
      for (int64_t i = 0; i < width; ++i) {
        const float expected = reference::SwiGlu(gate[i], up[i]);
        ExpectSameBits(&y[i], &expected, 1);
      }
    });
  }
}

TEST(SwiGlu, HasNoHolesAtTheEdgesOfTheExponent) {
  const std::vector<float> gates = {-1e30f, -100.0f, -88.0f, -0.0f, 0.0f, 87.5f, 100.0f, 1e30f}, up(8, 1.0f);
  std::vector<float> y(8);
  cpu::SwiGlu(gates.data(), up.data(), 8, y.data());
  for (size_t i = 0; i < 8; ++i) {
    const double g = gates[i], expected = g / (1.0 + std::exp(-g));
    EXPECT_NEAR(y[i], expected, std::abs(expected) * 1e-6 + 1e-6) << g;
  }
}

TEST(ReferenceExp, IsCloseToTheMathLibrary) {
  EXPECT_EQ(reference::Exp(0.0f), 1.0f);
  for (float x = -87.0f; x < 88.0f; x += 0.0137f) {
    EXPECT_NEAR(reference::Exp(x) / std::exp(double{x}), 1.0, 3e-7) << x;
  }
}

TEST(KvStore, RoundsToNearestEvenIntoTheSlotOfEveryHead) {
  constexpr int64_t kHeads = 2, kHeadDim = 36, kSlots = 16, kSlot = 5, kPiece = kSlots * kHeadDim;
  std::vector<float> in = RandomFloats(kHeads * kHeadDim, 1);
  in[3] = std::numeric_limits<float>::quiet_NaN();
  in[4] = -std::numeric_limits<float>::infinity();
  in[5] = 1e-40f;
  ForEveryTarget([&] {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      const cpu::KvSlot slot{dtype, kHeadDim, kSlots, kPiece * 2, kSlot};
      std::vector<uint16_t> keys(kHeads * kPiece, 0xabcd), values = keys;
      cpu::StoreKeys(slot, in.data(), kHeads, keys.data());
      cpu::StoreValues(slot, in.data(), kHeads, values.data());
      for (int64_t head = 0; head < kHeads; ++head) {
        for (int64_t i = 0; i < kPiece; ++i) {
          const auto expected = [&](int64_t element, int64_t in_slot) -> uint16_t {
            const float value = in[head * kHeadDim + element];
            return in_slot != kSlot ? 0xabcd : dtype == DType::kF16 ? F16FromF32(value) : BF16FromF32(value);
          };
          ASSERT_EQ(keys[head * kPiece + i], expected(i / kSlots, i % kSlots)) << i;
          ASSERT_EQ(values[head * kPiece + i], expected(i % kHeadDim, i / kHeadDim)) << i;
        }
      }
    }
  });
}

TEST(KvStore, Int8HasAScaleForEveryTokenAndHead) {
  constexpr int64_t kHeads = 3, kHeadDim = 20, kSlots = 16, kPiece = kSlots * (kHeadDim + 4);
  std::vector<float> in = RandomFloats(kHeads * kHeadDim, 1);
  for (int64_t e = 0; e < kHeadDim; ++e) in[kHeadDim + e] = 0;
  in[2 * kHeadDim + 3] = std::numeric_limits<float>::infinity();
  std::vector<int8_t> keys(kHeads * kPiece), values = keys;
  const cpu::KvSlot slot{DType::kI8, kHeadDim, kSlots, kPiece, 9};
  cpu::StoreKeys(slot, in.data(), kHeads, keys.data());
  cpu::StoreValues(slot, in.data(), kHeads, values.data());
  const auto scale = [&](const std::vector<int8_t>& pool, int64_t head) {
    return reinterpret_cast<const float*>(pool.data() + head * kPiece + kSlots * kHeadDim)[9];
  };
  float largest = 0;
  for (int64_t e = 0; e < kHeadDim; ++e) largest = std::max(largest, std::abs(in[e]));
  EXPECT_EQ(scale(keys, 0), largest / 127);
  for (int64_t e = 0; e < kHeadDim; ++e) {
    EXPECT_NEAR(keys[e * kSlots + 9] * scale(keys, 0), in[e], largest / 253) << e;
    EXPECT_EQ(values[9 * kHeadDim + e], keys[e * kSlots + 9]);
  }
  EXPECT_EQ(scale(values, 1), 0.0f);
  EXPECT_TRUE(std::isnan(scale(values, 2)));
}

}  // namespace
}  // namespace baton
