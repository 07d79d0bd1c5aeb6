// int8 and int4 panels: packing, and the products, bit for bit on every SIMD target.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "tests/kernels/random_floats.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/targets.h"

namespace baton {
namespace {

constexpr DType kFormats[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};

int OffsetOf(DType dtype) { return dtype == DType::kQ8_0 ? 128 : dtype == DType::kQ4_0 ? 8 : 0; }

// Rows of codes, and the matrix that holds them.
struct CodedMatrix {
  int64_t groups;
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scales, minimums;
  AlignedBuffer memory;
  cpu::PanelMatrix matrix;

  // code(index) gives each code, of 0 .. 255 for int8 and 0 .. 15 for int4.
  template <typename Code>
  CodedMatrix(DType dtype, int64_t outputs, int64_t inputs, const Code& code) {
    matrix = {dtype, outputs, inputs, nullptr};
    groups = matrix.groups();
    const std::vector<float> factors = RandomFloats(2 * outputs * groups, 7);
    for (int64_t i = 0; i < outputs * groups; ++i) {
      scales.push_back(F16FromF32(0.01f * factors[2 * i]));
      minimums.push_back(F16FromF32(0.1f * factors[2 * i + 1]));
    }
    for (int64_t i = 0; i < outputs * groups * cpu::kGroupInputs; ++i) codes.push_back(code(i));
    memory = AlignedBuffer(matrix.bytes());
    matrix.data = memory.data();
    std::fill_n(memory.data(), memory.size(), std::byte{0x7f});
    cpu::PackCodedRows(matrix, 0, outputs, rows());
  }

  cpu::CodedRows rows() const { return {codes.data(), scales.data(), minimums.data()}; }

  std::vector<reference::WholeRow> WholeRows() const {
    std::vector<reference::WholeRow> out(matrix.outputs);
    for (int64_t o = 0; o < matrix.outputs; ++o) {
      for (int64_t k = 0; k < matrix.inputs; ++k) {
        out[o].values.push_back(int{codes[o * groups * cpu::kGroupInputs + k]} - OffsetOf(matrix.dtype));
      }
      for (int64_t g = 0; g < groups; ++g) {
        out[o].scales.push_back(F32FromF16(scales[o * groups + g]));
        if (matrix.dtype == DType::kQ4_1) out[o].minimums.push_back(F32FromF16(minimums[o * groups + g]));
      }
    }
    return out;
  }
};

CodedMatrix RandomCodes(DType dtype, int64_t outputs, int64_t inputs) {
  std::mt19937 generator(11);
  return {dtype, outputs, inputs,
          [&](int64_t) { return static_cast<uint8_t>(generator() % (dtype == DType::kQ8_0 ? 256 : 16)); }};
}

std::vector<float> Product(const cpu::PanelMatrix& matrix, const std::vector<float>& bias, const float* x, int64_t rows,
                           ThreadPool& pool) {
  const int64_t stride = cpu::PaddedToPanel(matrix.outputs);
  const cpu::LinearWorkspace workspace(rows, matrix.inputs, pool.threads());
  std::vector<float> padded(rows * stride, -1.0f), y, padded_bias = bias;
  padded_bias.resize(bias.empty() ? 0 : stride);
  cpu::Linear(matrix, bias.empty() ? nullptr : padded_bias.data(), x, matrix.inputs, rows, padded.data(), stride,
              workspace, pool);
  for (int64_t r = 0; r < rows; ++r) {
    y.insert(y.end(), padded.begin() + r * stride, padded.begin() + r * stride + matrix.outputs);
  }
  return y;
}

std::string Describe(DType dtype, int64_t rows, int64_t inputs, int64_t outputs) {
  return std::string(DTypeName(dtype)) + ", " + std::to_string(rows) + " rows, " + std::to_string(inputs) +
         " inputs, " + std::to_string(outputs) + " outputs";
}

TEST(QuantizedLinear, EqualsTheReferenceBitForBitOnEveryTargetAndFormat) {
  ThreadPool pool(2);
  for (const DType dtype : kFormats) {
    // Inputs around a group and the blocks of groups, outputs around panels and the panels of a tile.
    for (const auto& [inputs, outputs] : {std::pair<int64_t, int64_t>{32, 16},
                                          {3, 1},
                                          {900, 150},
                                          {257, 33},
                                          {544, 49},
                                          {64, 40},
                                          {1056, 80},
                                          {520, 272}}) {
      const CodedMatrix coded = RandomCodes(dtype, outputs, inputs);
      for (const int64_t rows : {1, 2, 3, 7, 16, 17, 33}) {
        SCOPED_TRACE(Describe(dtype, rows, inputs, outputs));
        const std::vector<float> x = RandomFloats(rows * inputs, 2);
        const std::vector<float> bias = rows % 2 ? RandomFloats(outputs, 3) : std::vector<float>();
        const std::vector<float> expected = reference::QuantizedLinear(coded.WholeRows(), bias, x, rows, inputs);
        ForEveryTarget([&] {
          const std::vector<float> y = Product(coded.matrix, bias, x.data(), rows, pool);
          ExpectSameBits(y.data(), expected.data(), expected.size());
        });
      }
    }
  }
}

TEST(QuantizedLinear, RowsThatAreTakenInPiecesEqualTheReferenceOnEveryTarget) {
  ThreadPool pool(2);
  constexpr int64_t kRows = 197, kInputs = 1000, kOutputs = 40;
  const std::vector<float> x = RandomFloats(kRows * kInputs, 2), bias = RandomFloats(kOutputs, 3);
  for (const DType dtype : kFormats) {
    SCOPED_TRACE(Describe(dtype, kRows, kInputs, kOutputs));
    const CodedMatrix coded = RandomCodes(dtype, kOutputs, kInputs);
    const std::vector<float> expected = reference::QuantizedLinear(coded.WholeRows(), bias, x, kRows, kInputs);
    ForEveryTarget([&] {
      const std::vector<float> y = Product(coded.matrix, bias, x.data(), kRows, pool);
      ExpectSameBits(y.data(), expected.data(), expected.size());
    });
  }
}

TEST(QuantizedLinear, ARowOfManyEqualsTheRowAloneForAnyThreadCount) {
  constexpr int64_t kRows = 37, kInputs = 640, kOutputs = 200;
  const std::vector<float> x = RandomFloats(kRows * kInputs, 2), bias = RandomFloats(kOutputs, 3);
  for (const DType dtype : kFormats) {
    const CodedMatrix coded = RandomCodes(dtype, kOutputs, kInputs);
    ThreadPool one(1);
    const std::vector<float> together = Product(coded.matrix, bias, x.data(), kRows, one);
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      for (const int64_t count : {1, 2, 3, 4, 5, 7, 16, 17}) {
        for (int64_t row = 0; row + count <= kRows; row += count) {
          const std::vector<float> alone = Product(coded.matrix, bias, x.data() + row * kInputs, count, pool);
          ExpectSameBits(alone.data(), together.data() + row * kOutputs, alone.size());
        }
      }
    }
  }
}

TEST(QuantizedLinear, ProductsOfTheLargestMagnitudesDoNotSaturate) {
  ThreadPool pool(1);
  constexpr int64_t kInputs = 96, kOutputs = 32;
  for (const DType dtype : kFormats) {
    const uint8_t highest = dtype == DType::kQ8_0 ? 255 : 15;
    for (const uint8_t even : {uint8_t{0}, highest}) {
      for (const uint8_t odd : {uint8_t{0}, highest}) {
        const CodedMatrix coded(dtype, kOutputs, kInputs, [&](int64_t i) { return i % 2 ? odd : even; });
        for (const float x_even : {-1.0f, 1.0f}) {
          for (const float x_odd : {-1.0f, 1.0f}) {  // all inputs become 127 or -127
            for (const int64_t rows : {1, 2, 7}) {
              std::vector<float> x(rows * kInputs);
              for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 ? x_odd : x_even;
              const std::vector<float> expected = reference::QuantizedLinear(coded.WholeRows(), {}, x, rows, kInputs);
              ForEveryTarget([&] {
                const std::vector<float> y = Product(coded.matrix, {}, x.data(), rows, pool);
                ExpectSameBits(y.data(), expected.data(), expected.size());
              });
            }
          }
        }
      }
    }
  }
}

TEST(QuantizedLinear, IsCloseToTheProductOfTheUnroundedRow) {
  constexpr int64_t kInputs = 4864, kOutputs = 20;
  const std::vector<float> x = RandomFloats(kInputs, 2);
  ThreadPool pool(1);
  for (const DType dtype : kFormats) {
    const CodedMatrix coded = RandomCodes(dtype, kOutputs, kInputs);
    const std::vector<float> y = Product(coded.matrix, {}, x.data(), 1, pool);
    std::vector<float> weights(kInputs);
    for (int64_t o = 0; o < kOutputs; ++o) {
      cpu::UnpackRow(coded.matrix, o, weights.data());
      double sum = 0, squares = 0;
      for (int64_t k = 0; k < kInputs; ++k) {
        sum += double{x[k]} * weights[k];
        squares += double{weights[k]} * weights[k];
      }
      EXPECT_NEAR(y[o], sum, 5 * std::sqrt(squares) * (1.0 / 127 / std::sqrt(12.0)));  // five sigmas of rounding
    }
  }
}

TEST(QuantizedRows, AreTheReferenceOnEveryTarget) {
  constexpr int64_t kInputs = 200;
  std::vector<float> x = RandomFloats(kInputs, 4, 3.0f);
  std::fill_n(x.begin() + 32, 32, 0.0f);
  std::fill_n(x.begin() + 64, 32, 0x1p-120f);
  const reference::QuantizedRow expected = reference::QuantizeRow(x.data(), kInputs);
  ForEveryTarget([&] {
    const cpu::QuantizedRows rows(3, kInputs);
    rows.Quantize(2, x.data(), kInputs);
    for (size_t i = 0; i < expected.values.size(); ++i) EXPECT_EQ(rows.values(2, kInputs)[i], expected.values[i]) << i;
    for (size_t g = 0; g < expected.scales.size(); ++g) {
      int sum = 0;
      for (int i = 0; i < 32; ++i) sum += expected.values[g * 32 + i];
      const cpu::ActivationGroup& group = rows.groups(2, kInputs)[g];
      EXPECT_EQ(group.scale, expected.scales[g]);
      EXPECT_EQ(group.scaled_sum, expected.scales[g] * static_cast<float>(sum));
      EXPECT_EQ(group.start_int8, -128 * sum);
      EXPECT_EQ(group.start_int4, -8 * sum);
    }
  });
}

TEST(QuantizedPanels, CodesComeBackAsTheyWerePackedInPieces) {
  constexpr int64_t kOutputs = 37, kInputs = 75;
  for (const DType dtype : kFormats) {
    CodedMatrix coded = RandomCodes(dtype, kOutputs, kInputs);
    std::fill_n(coded.matrix.data, coded.matrix.bytes(), std::byte{0x7f});
    for (int64_t first = 0; first < kOutputs; first += 5) {
      const int64_t skipped = first * coded.groups;
      cpu::PackCodedRows(
          coded.matrix, first, std::min<int64_t>(5, kOutputs - first),
          {coded.codes.data() + skipped * 32, coded.scales.data() + skipped, coded.minimums.data() + skipped});
    }
    const std::vector<reference::WholeRow> whole = coded.WholeRows();
    std::vector<float> row(kInputs);
    for (int64_t o = 0; o < kOutputs; ++o) {
      const TokenId token = static_cast<TokenId>(o);
      cpu::Embedding(coded.matrix, {&token, 1}, row.data());
      for (int64_t k = 0; k < kInputs; ++k) {
        float expected = whole[o].scales[k / 32] * static_cast<float>(whole[o].values[k]);
        if (dtype == DType::kQ4_1) expected += whole[o].minimums[k / 32];
        ASSERT_EQ(row[k], expected) << "output " << o << " input " << k;
      }
    }
    // Outputs that do not exist weigh nothing.
    cpu::PanelMatrix all = coded.matrix;
    all.outputs = cpu::PaddedToPanel(kOutputs);
    cpu::UnpackRow(all, kOutputs, row.data());
    EXPECT_EQ(row, std::vector<float>(kInputs, 0.0f));
  }
}

TEST(QuantizedPanels, FloatsAreRoundedByAtMostHalfAStep) {
  constexpr int64_t kOutputs = 17, kInputs = 100;
  std::vector<float> rows = RandomFloats(kOutputs * kInputs, 5);
  std::fill_n(rows.begin(), 32, 0.0f);
  for (const DType dtype : kFormats) {
    cpu::PanelMatrix matrix{dtype, kOutputs, kInputs, nullptr};
    const AlignedBuffer memory(matrix.bytes());
    matrix.data = memory.data();
    cpu::PackRows(matrix, 0, kOutputs, rows.data());
    std::vector<float> row(kInputs);
    for (int64_t o = 0; o < kOutputs; ++o) {
      cpu::UnpackRow(matrix, o, row.data());
      for (int64_t first = 0; first < kInputs; first += 32) {
        const int64_t end = std::min(first + 32, kInputs);
        float low = 0, high = 0;
        for (int64_t k = first; k < end; ++k) {
          low = std::min(low, rows[o * kInputs + k]);
          high = std::max(high, rows[o * kInputs + k]);
        }
        const float largest = std::max(high, -low);
        const float step = dtype == DType::kQ8_0   ? largest / 127
                           : dtype == DType::kQ4_0 ? largest / 8
                                                   : (high - low) / 15;
        for (int64_t k = first; k < end; ++k) {
          // kQ4_0 has one code less on the smaller side; f16 scales add a little.
          const float bound = dtype == DType::kQ4_0 ? step * 1.01f : step * 0.51f + largest * 0x1p-10f;
          EXPECT_LE(std::abs(row[k] - rows[o * kInputs + k]), bound) << DTypeName(dtype) << " " << o << " " << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton
