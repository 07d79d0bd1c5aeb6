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

// The place of a tile in the matrix and in the call.
struct Place {
  int64_t row, vector;  // vectors are counted through the matrix
  int64_t first_group, end_group;
  int tile, tiles;  // of rows; what has to come from memory is fetched by all of them in equal parts
  int64_t prefetch_bytes;
  bool prefetch_near;
};

template <DType kFormat, int kRows, int kColumns>
HWY_INLINE void TileOf(const QuantizedCall& call, const Place& at) {
  constexpr int kLines = kIsInt8<kFormat> ? 8 : 4;
  const PanelMatrix& weights = call.weights;
  const int64_t inputs = weights.inputs, output = at.vector * kLanes;
  QuantizedTile<kFormat, kRows, kColumns>(
      {.panel = reinterpret_cast<const uint8_t*>(weights.data) + at.vector / kVectors * weights.panel_bytes(),
       .panel_bytes = weights.panel_bytes(),
       .scales_offset = weights.scales_offset(),
       .minimums_offset = weights.minimums_offset(),
       .values = call.x.values(at.row, inputs),
       .value_stride = QuantizedRows::ValueStride(inputs),
       .groups = call.x.groups(at.row, inputs),
       .group_stride = QuantizedRows::GroupStride(inputs),
       .first_group = at.first_group,
       .end_group = at.end_group,
       .y = call.y + at.row * call.y_stride + output,
       .y_stride = call.y_stride,
       .bias = call.bias != nullptr && at.end_group == weights.groups() ? call.bias + output : nullptr,
       .prefetch_first = kLines * at.tile / at.tiles,
       .prefetch_end = kLines * (at.tile + 1) / at.tiles,
       .prefetch_bytes = at.prefetch_bytes,
       .prefetch_near = at.prefetch_near},
      static_cast<int>(at.vector % kVectors));
}

// kRows rows against all vectors of [at.vector, end).
template <DType kFormat, int kRows>
HWY_INLINE void TilesOf(const QuantizedCall& call, Place at, int64_t end) {
  constexpr int kColumns = QuantizedTileColumns(kRows);
  for (; at.vector + kColumns <= end; at.vector += kColumns) TileOf<kFormat, kRows, kColumns>(call, at);
  if constexpr (kColumns == 4) {
    for (; at.vector + 2 <= end; at.vector += 2) TileOf<kFormat, kRows, 2>(call, at);
  }
  for (; at.vector < end; ++at.vector) {
    for (Place row = at; row.row < at.row + kRows; ++row.row) TileOf<kFormat, 1, 1>(call, row);
  }
}

// Rows [at.row, last_row) against the vectors of [at.vector, end).
template <DType kFormat>
HWY_INLINE void AllRows(const QuantizedCall& call, Place at, int64_t last_row, int64_t end) {
  at.tiles = static_cast<int>((last_row - at.row + kQuantizedTileRows - 1) / kQuantizedTileRows);
  for (; at.row < last_row; at.tile = std::min(at.tile + 1, at.tiles - 1)) {
    const int64_t left = last_row - at.row;
    if (left >= kQuantizedTileRows) {
      TilesOf<kFormat, kQuantizedTileRows>(call, at, end);
      at.row += kQuantizedTileRows;
    } else if (kQuantizedTileRows > 4 && left >= 4) {
      TilesOf<kFormat, 4>(call, at, end);
      at.row += 4;
    } else if (left >= 2) {
      TilesOf<kFormat, 2>(call, at, end);
      at.row += 2;
    } else {
      TilesOf<kFormat, 1>(call, at, end);
      at.row += 1;
    }
  }
}

template <DType kFormat>
void QuantizedLinearOf(const QuantizedCall& call) {
  // A unit of vectors, and a block of its groups that stays in the first-level cache while every tile of rows meets it.
  // High tiles divide a unit of two vectors; few rows have wider ones.
  const bool high = kLanes == 16 && call.rows > 8;
  const int64_t unit = high ? 2 : kVectors > 4 ? kVectors : 4;
  const int64_t block_groups = high ? 28 : 14;
  // Rows that meet all units of a task before the next ones do: their values stay in the second-level cache.
  constexpr int64_t kRowsAtATime = 192;
  constexpr int64_t kGroupBytes = kIsInt8<kFormat> ? 512 : 256;  // of codes
  const int64_t groups = call.weights.groups();
  const bool one_tile = call.rows <= kQuantizedTileRows;
  const int64_t block = one_tile ? groups : block_groups;
  const int64_t vectors = call.weights.panels() * kVectors;
  constexpr int64_t kTaskVectors = kVectors > 4 ? kVectors : 4;
  const int64_t shares = (vectors + kTaskVectors - 1) / kTaskVectors;
  const int64_t task_vectors = std::clamp<int64_t>(shares / (call.pool.threads() * 8), 1, 16) * kTaskVectors;
  call.pool.Run((vectors + task_vectors - 1) / task_vectors, [&](int64_t task, int) HWY_ATTR {
    const int64_t begin = task * task_vectors, end = std::min(begin + task_vectors, vectors);
    for (int64_t row = 0; row < call.rows; row += kRowsAtATime) {
      for (int64_t vector = begin; vector < end; vector += unit) {
        for (int64_t first = 0; first < groups; first += block) {
          // The next block of these panels, or the first one of the next unit's.
          const int64_t ahead = first + block < groups ? block * kGroupBytes
                                                       : (unit + kVectors - 1) / kVectors * call.weights.panel_bytes() -
                                                             first * kGroupBytes;
          const Place at{.row = row,
                         .vector = vector,
                         .first_group = first,
                         .end_group = std::min(first + block, groups),
                         .tile = 0,
                         .tiles = 1,
                         .prefetch_bytes = one_tile ? 4096 : ahead,
                         .prefetch_near = one_tile};
          AllRows<kFormat>(call, at, std::min(row + kRowsAtATime, call.rows), std::min(vector + unit, end));
        }
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
