#include "kernels/linear.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

struct Call {
  const PanelMatrix& weights;
  const float* bias;
  const float* x;
  int64_t x_stride;
  int64_t rows;
  float* y;
  int64_t y_stride;
  const LinearWorkspace& workspace;
  TaskRunner& pool;

  template <typename T>
  const T* panel(int64_t index) const {
    return reinterpret_cast<const T*>(weights.data) + index * weights.inputs * kPanelWidth;
  }
  const float* bias_at(int64_t panel, bool last_block) const {
    return bias != nullptr && last_block ? bias + panel * kPanelWidth : nullptr;
  }
};

// Copies `rows` rows to [inputs][kRows], missing rows zero.
template <int kRows>
HWY_INLINE void PackTile(const float* x, int64_t x_stride, int64_t rows, int64_t inputs, float* packed) {
  constexpr int64_t kChunk = 16;  // a cache line of every row at a time
  for (int64_t first = 0; first < inputs; first += kChunk) {
    const int64_t end = std::min(first + kChunk, inputs);
    for (int64_t r = 0; r < kRows; ++r) {
      const float* row = x + r * x_stride;
      for (int64_t k = first; k < end; ++k) packed[k * kRows + r] = r < rows ? row[k] : 0.0f;
    }
  }
}

// One tile's worth of rows against kPanels panels, straight from the packed weights.
template <typename T, int kRows, int kPanels>
HWY_INLINE void StreamGroup(const Call& call, const float* packed, int64_t panel) {
  const int64_t inputs = call.weights.inputs;
  for (int64_t k = 0; k < inputs; k += kInputBlock) {
    const int64_t steps = std::min(kInputBlock, inputs - k);
    Tile<T, kRows, kPanels, 1, kRows>(packed + k * kRows, call.panel<T>(panel) + k * kPanelWidth, inputs * kPanelWidth,
                                      steps, call.y + panel * kPanelWidth, call.y_stride, static_cast<int>(call.rows),
                                      k == 0, call.bias_at(panel, k + steps == inputs));
  }
}

template <typename T, int kRows, int kPanels>
HWY_INLINE void StreamPanelsOf(const Call& call, const float* packed) {
  const int64_t panels = call.weights.panels();
  const int64_t groups = (panels + kPanels - 1) / kPanels;
  call.pool.Run(groups, [&](int64_t group, int) HWY_ATTR {
    const int64_t begin = group * kPanels;
    const int64_t end = std::min(begin + kPanels, panels);
    if (end - begin == kPanels) return StreamGroup<T, kRows, kPanels>(call, packed, begin);
    for (int64_t panel = begin; panel < end; ++panel) StreamGroup<T, kRows, 1>(call, packed, panel);
  });
}

// At most kStreamRows rows: every weight is read once and widened in registers. The time is that of reading the
// weights.
template <typename T>
void FewRows(const Call& call) {
  const auto stream = [&](auto tile_rows) HWY_ATTR {
    constexpr int kRows = decltype(tile_rows)::value;
    const float* packed = call.x;
    if constexpr (kRows > 1) {
      float* out = call.workspace.packed_rows();
      const int64_t inputs = call.weights.inputs;
      constexpr int64_t kPackInputs = 1024;  // a few microseconds: less is not worth waking a thread
      call.pool.Run((inputs + kPackInputs - 1) / kPackInputs, [&](int64_t task, int) HWY_ATTR {
        const int64_t k = task * kPackInputs;
        PackTile<kRows>(call.x + k, call.x_stride, call.rows, std::min(kPackInputs, inputs - k), out + k * kRows);
      });
      packed = out;
    }
    StreamPanelsOf<T, kRows, StreamPanels(kRows)>(call, packed);
  };
  if constexpr (kStreamRows > kTileRows) {
    if (call.rows > kTileRows) return stream(std::integral_constant<int, kStreamRows>());
  }
  WithTileRows(call.rows, stream);
}

// One block of inputs of kPanels panels against all rows.
template <typename T, int kPanels>
HWY_INLINE void TilesOfPanels(const Call& call, const float* packed, int64_t panel, int64_t k, float* widened) {
  const int64_t inputs = call.weights.inputs;
  const int64_t steps = std::min(kInputBlock, inputs - k);
  const float* b = nullptr;
  int64_t panel_stride = 0;
  if constexpr (std::is_same_v<T, float>) {
    b = call.panel<float>(panel) + k * kPanelWidth;
    panel_stride = inputs * kPanelWidth;
  } else {
    panel_stride = kInputBlock * kPanelWidth;
    for (int p = 0; p < kPanels; ++p) {
      const T* from = call.panel<T>(panel + p) + k * kPanelWidth;
      float* to = widened + p * panel_stride;
      for (int64_t i = 0; i < steps * kPanelWidth; i += kLanes) hn::Store(LoadF32(from + i), F32Tag(), to + i);
    }
    b = widened;
  }
  const float* bias = call.bias_at(panel, k + steps == inputs);
  float* y = call.y + panel * kPanelWidth;
  int64_t row = 0;
  for (; row + kTileRows <= call.rows; row += kTileRows) {
    Tile<float, kTileRows, kPanels, 1, kTileRows>(packed + row * inputs + k * kTileRows, b, panel_stride, steps,
                                                  y + row * call.y_stride, call.y_stride, kTileRows, k == 0, bias);
  }
  const int64_t left = call.rows - row;
  if (left == 0) return;
  WithTileRows(left, [&](auto tile_rows) HWY_ATTR {
    constexpr int kRows = decltype(tile_rows)::value;
    Tile<float, kRows, kPanels, 1, kRows>(packed + row * inputs + k * kRows, b, panel_stride, steps,
                                          y + row * call.y_stride, call.y_stride, static_cast<int>(left), k == 0, bias);
  });
}

// Many rows: a block of a panel is widened once into the first-level cache and meets every tile of rows there.
template <typename T>
void ManyRows(const Call& call) {
  const int64_t inputs = call.weights.inputs;
  float* packed = call.workspace.packed_rows();
  const int64_t row_tiles = (call.rows + kTileRows - 1) / kTileRows;
  call.pool.Run(row_tiles, [&](int64_t tile, int) HWY_ATTR {
    const int64_t row = tile * kTileRows;
    const int64_t rows = std::min<int64_t>(kTileRows, call.rows - row);
    WithTileRows(rows, [&](auto tile_rows) HWY_ATTR {
      PackTile<decltype(tile_rows)::value>(call.x + row * call.x_stride, call.x_stride, rows, inputs,
                                           packed + row * inputs);
    });
  });
  const int64_t panels = call.weights.panels();
  const int64_t share = panels / (call.pool.threads() * 4 * kTilePanels);
  const int64_t task_panels = std::clamp<int64_t>(share, 1, 16) * kTilePanels;
  call.pool.Run((panels + task_panels - 1) / task_panels, [&](int64_t task, int worker) HWY_ATTR {
    const int64_t begin = task * task_panels;
    const int64_t end = std::min(begin + task_panels, panels);
    float* widened = call.workspace.widened_panels(worker);
    for (int64_t k = 0; k < inputs; k += kInputBlock) {
      int64_t panel = begin;
      for (; panel + kTilePanels <= end; panel += kTilePanels) {
        TilesOfPanels<T, kTilePanels>(call, packed, panel, k, widened);
      }
      for (; panel < end; ++panel) TilesOfPanels<T, 1>(call, packed, panel, k, widened);
    }
  });
}

template <typename T>
void LinearOf(const Call& call) {
  call.rows <= kStreamRows ? FewRows<T>(call) : ManyRows<T>(call);
}

void LinearImpl(const PanelMatrix& weights, const float* bias, const float* x, int64_t x_stride, int64_t rows, float* y,
                int64_t y_stride, const LinearWorkspace& workspace, TaskRunner& pool) {
  const Call call{weights, bias, x, x_stride, rows, y, y_stride, workspace, pool};
  switch (weights.dtype) {
    case DType::kF16:
      return LinearOf<F16Bits>(call);
    case DType::kBF16:
      return LinearOf<BF16Bits>(call);
    default:
      return LinearOf<float>(call);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {
namespace {

constexpr int64_t kMaxTileRows = 12;  // of any target: a partial tile is padded to at most this

}  // namespace

LinearWorkspace::LinearWorkspace(int64_t max_rows, int64_t max_inputs, int threads)
    : packed_rows_(ZeroedFloats(PackedFloats(max_rows, max_inputs))),
      widened_panels_(ZeroedFloats(static_cast<uint64_t>(threads * kWidenedFloats))),
      quantized_rows_(max_rows, max_inputs) {}

uint64_t LinearWorkspace::PackedFloats(int64_t max_rows, int64_t max_inputs) {
  return static_cast<uint64_t>((max_rows + kMaxTileRows) * max_inputs);
}

uint64_t LinearWorkspace::BytesFor(int64_t max_rows, int64_t max_inputs, int threads) {
  return (PackedFloats(max_rows, max_inputs) + static_cast<uint64_t>(threads * kWidenedFloats)) * sizeof(float) +
         QuantizedRows::BytesFor(max_rows, max_inputs);
}

HWY_EXPORT(LinearImpl);

void Linear(const PanelMatrix& weights, const float* bias, const float* x, int64_t x_stride, int64_t rows, float* y,
            int64_t y_stride, const LinearWorkspace& workspace, TaskRunner& pool) {
  if (rows <= 0) return;
  if (IsQuantized(weights.dtype)) {
    const auto quantize = [&](int64_t row, int) {
      workspace.quantized_rows().Quantize(row, x + row * x_stride, weights.inputs);
    };
    pool.Run(rows, quantize);
    return QuantizedLinear(weights, bias, workspace.quantized_rows(), rows, y, y_stride, pool);
  }
  HWY_DYNAMIC_DISPATCH(LinearImpl)(weights, bias, x, x_stride, rows, y, y_stride, workspace, pool);
}

}  // namespace baton::cpu
#endif  // HWY_ONCE
