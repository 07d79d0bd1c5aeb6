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
       .prefetch_bytes = at.prefetch_bytes},
      static_cast<int>(at.vector % kVectors));
}

// kRows rows against all vectors of [at.vector, end).
template <DType kFormat, int kRows>
HWY_INLINE void TilesOf(const QuantizedCall& call, Place at, int64_t end) {
  constexpr int kColumns = QuantizedTileColumns(kRows);
  for (; at.vector + kColumns <= end; at.vector += kColumns) TileOf<kFormat, kRows, kColumns>(call, at);
  for (; at.vector < end; ++at.vector) {
    for (Place row = at; row.row < at.row + kRows; ++row.row) TileOf<kFormat, 1, 1>(call, row);
  }
}

// All rows against the vectors of [at.vector, end).
template <DType kFormat>
HWY_INLINE void AllRows(const QuantizedCall& call, Place at, int64_t end) {
  at.tiles = static_cast<int>((call.rows + kQuantizedTileRows - 1) / kQuantizedTileRows);
  for (; at.row < call.rows; at.tile = std::min(at.tile + 1, at.tiles - 1)) {
    const int64_t left = call.rows - at.row;
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
  // A unit of vectors that every tile divides. A block of its groups stays in the first-level cache while every tile of
  // rows meets it.
  constexpr int64_t kUnit = 4 > kVectors ? 4 : kVectors;
  constexpr int64_t kBlockGroups = 8;
  constexpr int64_t kGroupBytes = kIsInt8<kFormat> ? 512 : 256;  // of codes
  constexpr int64_t kFewRows = 32;                               // so few that the time is also that of reading weights
  const int64_t groups = call.weights.groups();
  const bool one_tile = call.rows <= kQuantizedTileRows;
  const int64_t block = one_tile ? groups : kBlockGroups;
  const int64_t vectors = call.weights.panels() * kVectors;
  const int64_t units = (vectors + kUnit - 1) / kUnit;
  const int64_t task_units = std::clamp<int64_t>(units / (call.pool.threads() * 8), 1, 16);
  call.pool.Run((units + task_units - 1) / task_units, [&](int64_t task, int) HWY_ATTR {
    const int64_t begin = task * task_units * kUnit, end = std::min(begin + task_units * kUnit, vectors);
    const auto run = [&](int64_t vector, int64_t first) HWY_ATTR {
      const Place at{.row = 0,
                     .vector = vector,
                     .first_group = first,
                     .end_group = std::min(first + block, groups),
                     .tile = 0,
                     .tiles = 1,
                     .prefetch_bytes = one_tile ? 4096 : kBlockGroups * kGroupBytes};
      AllRows<kFormat>(call, at, std::min(vector + kUnit, end));
    };
    if (call.rows <= kFewRows) {  // along the panels: what is fetched ahead is what comes next
      for (int64_t vector = begin; vector < end; vector += kUnit) {
        for (int64_t first = 0; first < groups; first += block) run(vector, first);
      }
    } else {  // the same inputs of the rows for all panels of the task
      for (int64_t first = 0; first < groups; first += block) {
        for (int64_t vector = begin; vector < end; vector += kUnit) run(vector, first);
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
