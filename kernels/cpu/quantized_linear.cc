#include <algorithm>

#include "kernels/linear.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized_linear.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "kernels/cpu/quantized_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

struct QuantizedCall {
  const PanelMatrix& weights;
  const float* bias;
  const QuantizedRows& x;
  int64_t rows;
  float* y;
  int64_t y_stride;
  TaskRunner& pool;
};

// Rows [row, row + kRows) against kColumns vectors of outputs from `vector` on (counted through the matrix).
template <DType kFormat, int kRows, int kColumns>
HWY_INLINE void TileOf(const QuantizedCall& call, int64_t row, int64_t vector, int64_t first_group, int64_t end_group) {
  const PanelMatrix& weights = call.weights;
  const int64_t inputs = weights.inputs, output = vector * kLanes;
  QuantizedTile<kFormat, kRows, kColumns>(
      {.panel = reinterpret_cast<const uint8_t*>(weights.data) + vector / kVectors * weights.panel_bytes(),
       .panel_bytes = weights.panel_bytes(),
       .scales_offset = weights.scales_offset(),
       .minimums_offset = weights.minimums_offset(),
       .values = call.x.values(row, inputs),
       .value_stride = QuantizedRows::ValueStride(inputs),
       .groups = call.x.groups(row, inputs),
       .group_stride = QuantizedRows::GroupStride(inputs),
       .first_group = first_group,
       .end_group = end_group,
       .y = call.y + row * call.y_stride + output,
       .y_stride = call.y_stride,
       .bias = call.bias != nullptr && end_group == weights.groups() ? call.bias + output : nullptr},
      static_cast<int>(vector % kVectors));
}

// Rows [row, row + kRows) against all vectors of [vector, end).
template <DType kFormat, int kRows>
HWY_INLINE void TilesOf(const QuantizedCall& call, int64_t row, int64_t vector, int64_t end, int64_t first_group,
                        int64_t end_group) {
  constexpr int kColumns = QuantizedTileColumns(kRows);
  for (; vector + kColumns <= end; vector += kColumns) {
    TileOf<kFormat, kRows, kColumns>(call, row, vector, first_group, end_group);
  }
  for (; vector < end; ++vector) {
    for (int64_t r = row; r < row + kRows; ++r) TileOf<kFormat, 1, 1>(call, r, vector, first_group, end_group);
  }
}

template <DType kFormat>
void QuantizedLinearOf(const QuantizedCall& call) {
  constexpr int kTileRows = kQuantizedTileRows;
  // A unit of vectors that every tile divides; with many rows its codes of one block of groups stay in the first-level
  // cache while every tile of rows meets them.
  constexpr int64_t kUnit = 4 > kVectors ? 4 : kVectors;
  constexpr int64_t kManyRowsUnit = 2 > kVectors ? 2 : kVectors;
  constexpr int64_t kManyRowsGroups = 16;
  const int64_t unit = call.rows <= kTileRows ? kUnit : kManyRowsUnit;
  const int64_t groups = call.weights.groups();
  const int64_t block = call.rows <= kTileRows ? groups : kManyRowsGroups;
  const int64_t vectors = call.weights.panels() * kVectors;
  const int64_t units = (vectors + unit - 1) / unit;
  const int64_t task_units = std::clamp<int64_t>(units / (call.pool.threads() * 8), 1, 16);
  call.pool.Run((units + task_units - 1) / task_units, [&](int64_t task, int) HWY_ATTR {
    const int64_t task_begin = task * task_units * unit;
    const int64_t task_end = std::min(task_begin + task_units * unit, vectors);
    for (int64_t first = 0; first < groups; first += block) {
      const int64_t end = std::min(first + block, groups);
      for (int64_t vector = task_begin; vector < task_end; vector += unit) {
        const int64_t unit_end = std::min(vector + unit, task_end);
        int64_t row = 0;
        for (; row + kTileRows <= call.rows; row += kTileRows) {
          TilesOf<kFormat, kTileRows>(call, row, vector, unit_end, first, end);
        }
        if constexpr (kTileRows > 4) {
          if (call.rows - row >= 4) TilesOf<kFormat, 4>(call, row, vector, unit_end, first, end), row += 4;
        }
        if (call.rows - row >= 2) TilesOf<kFormat, 2>(call, row, vector, unit_end, first, end), row += 2;
        if (call.rows - row >= 1) TilesOf<kFormat, 1>(call, row, vector, unit_end, first, end);
      }
    }
  });
}

void QuantizedLinearImpl(const PanelMatrix& weights, const float* bias, const QuantizedRows& x, int64_t rows, float* y,
                         int64_t y_stride, TaskRunner& pool) {
  const QuantizedCall call{weights, bias, x, rows, y, y_stride, pool};
  switch (weights.dtype) {
    case DType::kQ8_0:
      return QuantizedLinearOf<DType::kQ8_0>(call);
    case DType::kQ4_0:
      return QuantizedLinearOf<DType::kQ4_0>(call);
    default:
      return QuantizedLinearOf<DType::kQ4_1>(call);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {

HWY_EXPORT(QuantizedLinearImpl);

void QuantizedLinear(const PanelMatrix& weights, const float* bias, const QuantizedRows& x, int64_t rows, float* y,
                     int64_t y_stride, TaskRunner& pool) {
  if (rows <= 0) return;
  HWY_DYNAMIC_DISPATCH(QuantizedLinearImpl)(weights, bias, x, rows, y, y_stride, pool);
}

}  // namespace baton::cpu
#endif  // HWY_ONCE
