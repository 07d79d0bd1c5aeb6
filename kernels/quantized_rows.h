#pragma once

// Rows of activations rounded to 8 bits, made once and read by every projection of the same row.
//
// A row is cut into the groups of the quantised weights. A group's scale is its largest magnitude / 127, its values are
// the inputs times 127 / that magnitude, rounded to nearest even: -127 .. 127. Groups whose largest magnitude is below
// 2^-100 are zero. A row's numbers depend on that row alone.

#include <cstdint>

#include "kernels/aligned_buffer.h"
#include "kernels/panel_matrix.h"

namespace baton::cpu {

struct ActivationGroup {
  float scale;
  float scaled_sum;    // scale * sum of the group's values: what a minimum is multiplied with
  int32_t start_int8;  // -128 * that sum: takes the offset of int8 codes away again
  int32_t start_int4;  // -8 * that sum
};

// Memory for such rows, allocated once.
class QuantizedRows {
 public:
  QuantizedRows(int64_t max_rows, int64_t max_inputs);
  static uint64_t BytesFor(int64_t max_rows, int64_t max_inputs) {
    return static_cast<uint64_t>(max_rows) *
           static_cast<uint64_t>(ValueStride(max_inputs) +
                                 GroupStride(max_inputs) * static_cast<int64_t>(sizeof(ActivationGroup)));
  }

  // Bytes and groups from a row to the next: uneven, so that the rows of a tile do not share cache sets.
  static int64_t ValueStride(int64_t inputs);
  static int64_t GroupStride(int64_t inputs) { return (inputs + kGroupInputs - 1) / kGroupInputs + 1; }
  int8_t* values(int64_t row, int64_t inputs) const {
    return reinterpret_cast<int8_t*>(values_.data()) + row * ValueStride(inputs);
  }
  ActivationGroup* groups(int64_t row, int64_t inputs) const {
    return reinterpret_cast<ActivationGroup*>(groups_.data()) + row * GroupStride(inputs);
  }

  // Rounds `row` [inputs] to place `index`. Different rows may be written by different threads.
  void Quantize(int64_t index, const float* row, int64_t inputs) const;

 private:
  AlignedBuffer values_;
  AlignedBuffer groups_;
};

}  // namespace baton::cpu
