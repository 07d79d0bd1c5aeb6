#pragma once

// The weight layout of the CPU kernels. A matrix [outputs, inputs] is cut into panels of 16 outputs, so that one vector
// holds the same input's weight of neighbouring outputs and every output's sum runs over the inputs in ascending order,
// whatever the width of a vector. Missing outputs of the last panel weigh nothing.
//
// f32, f16, bf16: a panel is [inputs][16].
// Quantised: inputs are cut into groups of 32 (the last one may be short), and each output has a scale per group. A
// panel holds the codes of all groups, then all scales [groups][16] f16, then, for q4_1, all minimums [groups][16] f16;
// it is padded to a cache line.
//   int8, DType kQ8_0: weight = scale * (code - 128); codes [groups][8][16][4], one byte each: four neighbouring inputs
//     of an output are the four bytes of a 32-bit lane.
//   int4, DType kQ4_0: weight = scale * (code - 8); codes [groups][4][16][4] bytes whose low halves are inputs 8 i ..
//     8 i + 3 and whose high halves are the next four.
//   int4 with minimum, DType kQ4_1: weight = scale * code + minimum; codes as in kQ4_0.
// Codes are the blocks of GGUF's formats of the same names, bit for bit; only their places differ.

#include <cstddef>
#include <cstdint>

#include "common/base/dtype.h"

namespace baton::cpu {

inline constexpr int64_t kPanelWidth = 16;
inline constexpr int64_t kGroupInputs = 32;

inline int64_t PaddedToPanel(int64_t outputs) { return (outputs + kPanelWidth - 1) / kPanelWidth * kPanelWidth; }

// Of the formats that panels come in.
inline bool IsQuantized(DType dtype) { return dtype == DType::kQ8_0 || dtype == DType::kQ4_0 || dtype == DType::kQ4_1; }

// A view; the bytes belong to someone else and are aligned to 64.
struct PanelMatrix {
  DType dtype = DType::kF32;  // f32, f16, bf16, q8_0, q4_0 or q4_1
  int64_t outputs = 0;
  int64_t inputs = 0;
  std::byte* data = nullptr;

  int64_t panels() const { return PaddedToPanel(outputs) / kPanelWidth; }
  uint64_t bytes() const { return static_cast<uint64_t>(panels() * panel_bytes()); }

  int64_t groups() const { return (inputs + kGroupInputs - 1) / kGroupInputs; }  // of a quantised matrix
  // Bytes from a panel's start to the next one's, to its scales and to its minimums.
  int64_t panel_bytes() const;
  int64_t scales_offset() const;
  int64_t minimums_offset() const { return scales_offset() + groups() * kPanelWidth * 2; }
};

// Writes outputs [first, first + count) from `rows` [count, inputs] row-major, rounded to the matrix' format. When the
// last output is among them, the rest of its panel becomes zero. Quantised formats round a group to the nearest codes
// of a scale (and minimum) that spans it: |error| <= scale / 2.
void PackRows(const PanelMatrix& matrix, int64_t first, int64_t count, const float* rows);

// The same for rows [count, inputs] that are in the matrix' format already, one of f32, f16 and bf16; any alignment.
void PackStoredRows(const PanelMatrix& matrix, int64_t first, int64_t count, const std::byte* rows);

// Rows that are quantised already.
struct CodedRows {
  const uint8_t* codes = nullptr;      // [count][groups * 32], a byte per code
  const uint16_t* scales = nullptr;    // [count][groups] f16
  const uint16_t* minimums = nullptr;  // [count][groups] f16; kQ4_1 only
};
// The same for a quantised matrix, without rounding.
void PackCodedRows(const PanelMatrix& matrix, int64_t first, int64_t count, const CodedRows& rows);

// Copies one output's weights to `row` [inputs]: the embedding lookup.
void UnpackRow(const PanelMatrix& matrix, int64_t output, float* row);

}  // namespace baton::cpu
