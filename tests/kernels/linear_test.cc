#include "kernels/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/embedding.h"
#include "tests/kernels/random_floats.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/targets.h"

namespace baton {
namespace {

constexpr DType kFormats[] = {DType::kF32, DType::kF16, DType::kBF16};

struct Packed {
  AlignedBuffer memory;
  cpu::PanelMatrix matrix;

  Packed(DType dtype, int64_t outputs, int64_t inputs, const std::vector<float>& rows) {
    matrix = {dtype, outputs, inputs, nullptr};
    memory = AlignedBuffer(matrix.bytes());
    matrix.data = memory.data();
    cpu::PackRows(matrix, 0, outputs, rows.data());
  }
};

struct Problem {
  int64_t rows, inputs, outputs;
  bool with_bias = true;
  std::vector<float> w = RandomFloats(outputs * inputs, 1);
  std::vector<float> x = RandomFloats(rows * inputs, 2);
  std::vector<float> bias = with_bias ? RandomFloats(cpu::PaddedToPanel(outputs), 3) : std::vector<float>();

  std::vector<float> Run(const Packed& packed, ThreadPool& pool, int64_t first_row, int64_t row_count) const {
    const int64_t stride = cpu::PaddedToPanel(outputs);
    const cpu::LinearWorkspace workspace(row_count, inputs, pool.threads());
    std::vector<float> padded(row_count * stride), y;
    cpu::Linear(packed.matrix, with_bias ? bias.data() : nullptr, x.data() + first_row * inputs, inputs, row_count,
                padded.data(), stride, workspace, pool);
    for (int64_t r = 0; r < row_count; ++r) {
      y.insert(y.end(), padded.begin() + r * stride, padded.begin() + r * stride + outputs);
    }
    return y;
  }
};

TEST(Linear, EqualsTheReferenceBitForBitOnEveryTargetAndFormat) {
  ThreadPool pool(2);
  // Rows around every tile height, inputs around the block, outputs around panels and groups of panels.
  for (const Problem& problem :
       {Problem{1, 256, 16}, Problem{1, 900, 150}, Problem{1, 3, 1}, Problem{2, 300, 272}, Problem{3, 257, 33},
        Problem{5, 64, 40}, Problem{6, 48, 17}, Problem{7, 520, 50}, Problem{12, 255, 31, false}, Problem{13, 513, 49},
        Problem{16, 300, 65}, Problem{24, 257, 49}, Problem{25, 64, 40}, Problem{29, 96, 80},
        Problem{70, 300, 130, false}, Problem{99, 40, 33}, Problem{193, 40, 33}, Problem{209, 300, 20}}) {
    for (const DType dtype : kFormats) {
      SCOPED_TRACE(std::to_string(problem.rows) + " rows, " + std::to_string(problem.inputs) + " inputs, " +
                   std::to_string(problem.outputs) + " outputs, " + std::string(DTypeName(dtype)));
      const Packed packed(dtype, problem.outputs, problem.inputs, problem.w);
      std::vector<float> bias = problem.bias;
      if (!bias.empty()) bias.resize(problem.outputs);
      const std::vector<float> expected =
          reference::Linear(Rounded(dtype, problem.w), bias, problem.x, problem.rows, problem.inputs, problem.outputs);
      ForEveryTarget([&] {
        const std::vector<float> y = problem.Run(packed, pool, 0, problem.rows);
        ExpectSameBits(y.data(), expected.data(), expected.size());
      });
    }
  }
}

TEST(Linear, ARowOfManyEqualsTheRowAloneForAnyThreadCount) {
  const Problem problem{37, 640, 200};
  for (const DType dtype : kFormats) {
    const Packed packed(dtype, problem.outputs, problem.inputs, problem.w);
    ThreadPool one(1);
    const std::vector<float> together = problem.Run(packed, one, 0, problem.rows);
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      for (const int64_t count : {1, 2, 4, 11, 12, 13, 16, 17, 24, 25}) {
        for (int64_t row = 0; row + count <= problem.rows; row += count) {
          const std::vector<float> alone = problem.Run(packed, pool, row, count);
          ExpectSameBits(alone.data(), together.data() + row * problem.outputs, alone.size());
        }
      }
    }
  }
}

TEST(Linear, IsCloseToDoublePrecision) {
  const Problem problem{1, 4864, 20, false};
  const Packed packed(DType::kF32, problem.outputs, problem.inputs, problem.w);
  ThreadPool pool(1);
  const std::vector<float> y = problem.Run(packed, pool, 0, 1);
  for (int64_t o = 0; o < problem.outputs; ++o) {
    double sum = 0;
    for (int64_t k = 0; k < problem.inputs; ++k) sum += double{problem.x[k]} * problem.w[o * problem.inputs + k];
    EXPECT_NEAR(y[o], sum, 1e-4);
  }
}

TEST(PanelMatrix, RowsComeBackAsTheyWerePackedInPieces) {
  constexpr int64_t kOutputs = 37, kInputs = 21;
  const std::vector<float> rows = RandomFloats(kOutputs * kInputs, 5);
  for (const DType dtype : kFormats) {
    Packed packed(dtype, kOutputs, kInputs, rows);
    std::fill_n(packed.matrix.data, packed.matrix.bytes(), std::byte{0x7f});
    for (int64_t first = 0; first < kOutputs; first += 5) {
      cpu::PackRows(packed.matrix, first, std::min<int64_t>(5, kOutputs - first), rows.data() + first * kInputs);
    }
    const std::vector<float> expected = Rounded(dtype, rows);
    const std::vector<TokenId> tokens = {36, 0, 17};
    std::vector<float> out(tokens.size() * kInputs);
    cpu::Embedding(packed.matrix, tokens, out.data());
    for (size_t i = 0; i < tokens.size(); ++i) {
      ExpectSameBits(out.data() + i * kInputs, expected.data() + tokens[i] * kInputs, kInputs);
    }
    // Outputs that do not exist weigh nothing.
    cpu::PanelMatrix whole = packed.matrix;
    whole.outputs = cpu::PaddedToPanel(kOutputs);
    std::vector<float> missing(kInputs);
    cpu::UnpackRow(whole, kOutputs, missing.data());
    EXPECT_EQ(missing, std::vector<float>(kInputs, 0.0f));
  }
}

TEST(PanelMatrix, StoredRowsArePackedAsTheirFloatsAre) {
  constexpr int64_t kOutputs = 53, kInputs = 21;
  const std::vector<float> rows = RandomFloats(kOutputs * kInputs, 5);
  for (const DType dtype : kFormats) {
    const Packed expected(dtype, kOutputs, kInputs, rows), actual(dtype, kOutputs, kInputs, rows);
    std::vector<std::byte> stored(BytesOf(dtype, rows.size()));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (dtype == DType::kF32) {
        std::memcpy(stored.data() + 4 * i, &rows[i], 4);
      } else {
        const uint16_t bits = dtype == DType::kF16 ? F16FromF32(rows[i]) : BF16FromF32(rows[i]);
        std::memcpy(stored.data() + 2 * i, &bits, 2);
      }
    }
    for (const int64_t piece : {53, 16, 5, 20}) {
      std::fill_n(actual.matrix.data, actual.matrix.bytes(), std::byte{0x7f});
      for (int64_t first = 0; first < kOutputs; first += piece) {
        cpu::PackStoredRows(actual.matrix, first, std::min(piece, kOutputs - first),
                            stored.data() + BytesOf(dtype, static_cast<uint64_t>(first * kInputs)));
      }
      EXPECT_EQ(std::memcmp(actual.matrix.data, expected.matrix.data, expected.matrix.bytes()), 0) << piece;
    }
  }
}

}  // namespace
}  // namespace baton
