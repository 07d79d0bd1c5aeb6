#include <bit>
#include <cmath>
#include <numeric>

#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/kernels/cuda/primitive_kernels.h"
#include "tests/kernels/random_floats.h"

namespace baton {
namespace {

using Primitives = CudaTest;

std::vector<uint16_t> Bits(DType dtype, const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float value : values) bits.push_back(dtype == DType::kF16 ? F16FromF32(value) : BF16FromF32(value));
  return bits;
}

TEST_F(Primitives, BlocksAddTheirOwnNumbers) {
  std::vector<float> in(3 * 256);
  std::iota(in.begin(), in.end(), 0.0f);
  float* out = NewDevice<float>(3);
  Expect(cuda::BlockSums(ToDevice(in), 3, out, stream()));
  EXPECT_EQ(ToHost(out, 3), (std::vector<float>{32640, 98176, 163712}));
}

TEST_F(Primitives, LanesSeeEachOthersValues) {
  std::vector<int32_t> in(32);
  for (int lane = 0; lane < 32; ++lane) in[lane] = lane % 3 == 0 ? 100 + lane : -lane;
  int32_t* out = NewDevice<int32_t>(160);
  Expect(cuda::Shuffles(ToDevice(in), out, stream()));
  const std::vector<int32_t> actual = ToHost(out, 160);
  uint32_t ballot = 0;
  for (int lane = 0; lane < 32; ++lane) ballot |= (in[lane] > 0 ? 1u : 0u) << lane;
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(actual[lane], in[lane ^ 5]);
    EXPECT_EQ(actual[32 + lane], in[3]);
    EXPECT_EQ(actual[64 + lane], in[lane < 2 ? lane : lane - 2]);
    EXPECT_EQ(static_cast<uint32_t>(actual[96 + lane]), ballot);
    EXPECT_EQ(static_cast<uint32_t>(actual[128 + lane]), static_cast<uint32_t>(in[lane ^ 1]) << 9);
  }
}

TEST_F(Primitives, TensorCoreTilesMapElementsAsDocumented) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const std::vector<float> a = Rounded(dtype, RandomFloats(256, 1)), b = Rounded(dtype, RandomFloats(128, 2));
    std::vector<float> b_transposed(128), expected(128);
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 8; ++n) b_transposed[n * 16 + k] = b[k * 8 + n];
    }
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 8; ++n) {
        for (int k = 0; k < 16; ++k) expected[m * 8 + n] += a[m * 16 + k] * b[k * 8 + n];
      }
    }
    for (const bool by_matrices : {false, true}) {
      float* d = NewDevice<float>(128);
      Expect(cuda::TileProduct(dtype, ToDevice(Bits(dtype, a)), ToDevice(Bits(dtype, b_transposed)),
                               ToDevice(Bits(dtype, b)), by_matrices, d, stream()));
      const std::vector<float> actual = ToHost(d, 128);
      for (int i = 0; i < 128; ++i) EXPECT_NEAR(actual[i], expected[i], 2e-6) << i << " " << by_matrices;
    }
  }
}

TEST_F(Primitives, AsynchronousCopiesArriveAndFillWithZeros) {
  std::vector<uint8_t> in(1024);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i * 7 + 1);
  for (const int valid : {1024, 512, 48, 0}) {
    uint8_t* out = NewDevice<uint8_t>(1024);
    Expect(cuda::CopyThroughShared(ToDevice(in), valid, out, stream()));
    std::vector<uint8_t> expected = in;
    std::fill(expected.begin() + valid, expected.end(), uint8_t{0});
    EXPECT_EQ(ToHost(out, 1024), expected);
  }
}

TEST_F(Primitives, AtomicsLoseNothing) {
  std::vector<uint32_t> in(1000);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint32_t>(i * i);
  const uint64_t total = std::accumulate(in.begin(), in.end(), uint64_t{0});
  uint64_t* sums = ToDevice(std::vector<uint64_t>{1, uint64_t{1} << 40});
  Expect(cuda::AtomicSums(ToDevice(in), 1000, sums, stream()));
  EXPECT_EQ(ToHost(sums, 2), (std::vector<uint64_t>{1 + total, (uint64_t{1} << 40) + total}));
}

TEST_F(Primitives, NumbersConvertWithTheBitsOfTheHost) {
  std::vector<float> from = RandomFloats(1000, 3, 100.0f);
  for (const float special :
       {0.0f, -0.0f, 65504.0f, 1e-7f, 3e-8f, 1.00390625f, 1.01171875f, 2049.0f, 2051.0f, -70.5f}) {
    from.push_back(special);
  }
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    uint16_t* to = NewDevice<uint16_t>(from.size());
    float* back = NewDevice<float>(from.size());
    float* powers = NewDevice<float>(from.size());
    Expect(cuda::Convert(dtype, ToDevice(from), static_cast<int>(from.size()), to, back, powers, stream()));
    EXPECT_EQ(ToHost(to, from.size()), Bits(dtype, from));
    const std::vector<float> actual = ToHost(back, from.size()), two_to = ToHost(powers, from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(Rounded(dtype, from[i])));
      if (std::abs(from[i]) < 120) {
        EXPECT_NEAR(two_to[i] / std::exp2(from[i]), 1, 4e-7) << from[i];
      }
    }
  }
}

// Of code `bits`, by the definition of E4M3.
float ValueOfF8(int bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                   : std::ldexp(1 + static_cast<float>(fraction) / 8, exponent - 7);
  return bits & 128 ? -size : size;
}

TEST_F(Primitives, Fp8RoundsToTheNearestCodeAndToTheEvenOneInTheMiddle) {
  std::vector<float> from, expected;
  for (int bits = 0; bits < 126; ++bits) {  // 127 is not a number
    const float low = ValueOfF8(bits), high = ValueOfF8(bits + 1), middle = (low + high) / 2;
    for (const float value : {low, std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1000.0f), high}) {
      const float nearest = value < middle || (value == middle && bits % 2 == 0) ? low : high;
      from.insert(from.end(), {value, -value});
      expected.insert(expected.end(), {nearest, -nearest});
    }
  }
  for (const float beyond : {460.0f, 1e6f, -1e30f, INFINITY, -INFINITY}) {
    from.push_back(beyond);
    expected.push_back(beyond < 0 ? -448.0f : 448.0f);
  }
  uint8_t* to = NewDevice<uint8_t>(from.size());
  float* back = NewDevice<float>(from.size());
  Expect(cuda::ConvertF8(ToDevice(from), static_cast<int>(from.size()), to, back, stream()));
  const std::vector<float> values = ToHost(back, from.size());
  const std::vector<uint8_t> codes = ToHost(to, from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(values[i], expected[i]) << from[i];
    EXPECT_EQ(ValueOfF8(codes[i]), expected[i]) << from[i];
  }
}

TEST_F(Primitives, Fp8KeepsWhatIsNotANumber) {
  const std::vector<float> from = {NAN, -NAN, 1.0f};
  uint8_t* to = NewDevice<uint8_t>(from.size());
  float* back = NewDevice<float>(from.size());
  Expect(cuda::ConvertF8(ToDevice(from), static_cast<int>(from.size()), to, back, stream()));
  const std::vector<float> values = ToHost(back, from.size());
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1]));
  EXPECT_EQ(values[2], 1.0f);
}

}  // namespace
}  // namespace baton
