#pragma once

// The weight layout of the CPU kernels. A matrix [outputs, inputs] is cut into panels of 16 outputs; a panel is
// [inputs][16], so that one vector holds the same input's weight of neighbouring outputs and every output's sum runs
// over the inputs in ascending order, whatever the width of a vector. Missing outputs of the last panel are zero.

#include <cstddef>
#include <cstdint>

#include "common/base/dtype.h"

namespace baton::cpu {

inline constexpr int64_t kPanelWidth = 16;

inline int64_t PaddedToPanel(int64_t outputs) { return (outputs + kPanelWidth - 1) / kPanelWidth * kPanelWidth; }

// A view; the bytes belong to someone else and are aligned to 64.
struct PanelMatrix {
  DType dtype = DType::kF32;  // f32, f16 or bf16
  int64_t outputs = 0;
  int64_t inputs = 0;
  std::byte* data = nullptr;

  int64_t panels() const { return PaddedToPanel(outputs) / kPanelWidth; }
  uint64_t bytes() const { return BytesOf(dtype, static_cast<uint64_t>(PaddedToPanel(outputs) * inputs)); }
};

// Writes outputs [first, first + count) from `rows` [count, inputs] row-major, rounded to the matrix' format. When the
// last output is among them, the rest of its panel becomes zero.
void PackRows(const PanelMatrix& matrix, int64_t first, int64_t count, const float* rows);

// Copies one output's weights to `row` [inputs]: the embedding lookup.
void UnpackRow(const PanelMatrix& matrix, int64_t output, float* row);

}  // namespace baton::cpu
