#pragma once

// y = x W^T + bias with weights in panels.
//
// Order of additions of one output, f32, f16 and bf16 weights: inputs are cut into blocks of kInputBlock; a block's sum
// starts at zero and adds fma(x[k], w[k], sum), k ascending; block sums are added in order, then the bias.
// Quantised weights: x is rounded to 8 bits (quantized_rows.h). The sum starts at zero; group after group, ascending,
// the exact integer sum of value * (code - offset) is added by fma(float(integer sum), weight scale * row scale, sum)
// and, with minimums, fma(minimum, the row group's scaled_sum, sum) after it; the bias last. One row or many, any
// thread count, any vector width: the same bits.

#include <cstdint>

#include "common/base/thread_pool.h"
#include "kernels/aligned_buffer.h"
#include "kernels/panel_matrix.h"
#include "kernels/quantized_rows.h"

namespace baton::cpu {

inline constexpr int64_t kInputBlock = 256;

// Scratch that Linear works in, allocated once. Used by one call at a time.
class LinearWorkspace {
 public:
  // For calls with at most `max_rows` rows, `max_inputs` inputs and a pool of `threads`.
  LinearWorkspace(int64_t max_rows, int64_t max_inputs, int threads);
  // Memory of such a workspace.
  static uint64_t BytesFor(int64_t max_rows, int64_t max_inputs, int threads);

  float* packed_rows() const { return packed_rows_.floats(); }
  float* widened_panels(int worker) const { return widened_panels_.floats() + worker * kWidenedFloats; }
  const QuantizedRows& quantized_rows() const { return quantized_rows_; }

 private:
  static uint64_t PackedFloats(int64_t max_rows, int64_t max_inputs);
  static constexpr int64_t kWidenedFloats = 2 * kInputBlock * kPanelWidth;
  AlignedBuffer packed_rows_;     // tiles of rows, [inputs][rows of the tile]
  AlignedBuffer widened_panels_;  // [threads][2][kInputBlock][16]
  QuantizedRows quantized_rows_;
};

// x: [rows, inputs], row stride `x_stride`. y: [rows, PaddedToPanel(outputs)], row stride `y_stride`; what lies between
// outputs and the padded width is overwritten. bias: [PaddedToPanel(outputs)] or null. Allocates nothing.
void Linear(const PanelMatrix& weights, const float* bias, const float* x, int64_t x_stride, int64_t rows, float* y,
            int64_t y_stride, const LinearWorkspace& workspace, TaskRunner& pool);

// The second half of it for quantised weights: rows [0, rows) of `x` were quantised before, by whoever made them.
void QuantizedLinear(const PanelMatrix& weights, const float* bias, const QuantizedRows& x, int64_t rows, float* y,
                     int64_t y_stride, TaskRunner& pool);

}  // namespace baton::cpu
