#include "kernels/linear.h"

#include <algorithm>
#include <utility>

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

// Copies `rows` rows to [inputs][kRows]; missing rows become copies of the last one.
template <int kRows>
HWY_INLINE void PackTile(const float* x, int64_t x_stride, int64_t rows, int64_t inputs, float* packed) {
  const float* row[kRows];
  for (int r = 0; r < kRows; ++r) row[r] = x + std::min<int64_t>(r, rows - 1) * x_stride;
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kRows >= 4) {  // four rows by four inputs, transposed in registers
    const hn::FixedTag<float, 4> d;
    const hn::FixedTag<double, 2> pairs;
    for (; k + 4 <= inputs; k += 4) {
#pragma GCC unroll 4
      for (int group = 0; group < kRows; group += 4) {
        const int r = std::min(group, kRows - 4);
        const auto a = hn::LoadU(d, row[r] + k), b = hn::LoadU(d, row[r + 1] + k);
        const auto c = hn::LoadU(d, row[r + 2] + k), e = hn::LoadU(d, row[r + 3] + k);
        const auto low_ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
        const auto low_ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
        const auto high_ab = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
        const auto high_ce = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
        float* to = packed + k * kRows + r;
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low_ab, low_ce)), d, to);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low_ab, low_ce)), d, to + kRows);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high_ab, high_ce)), d, to + 2 * kRows);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high_ab, high_ce)), d, to + 3 * kRows);
      }
    }
  }
#endif
  for (; k < inputs; ++k) {
    for (int r = 0; r < kRows; ++r) packed[k * kRows + r] = row[r][k];
  }
}

// One tile's worth of rows against kPanels panels, straight from the packed weights.
template <typename T, int kRows, int kPanels>
HWY_INLINE void StreamGroup(const Call& call, const float* packed, int64_t panel) {
  const int64_t inputs = call.weights.inputs;
  for (int64_t k = 0; k < inputs; k += kInputBlock) {
    const int64_t steps = std::min(kInputBlock, inputs - k);
    Tile<T, kRows, kPanels>(packed + k * kRows, call.panel<T>(panel) + k * kPanelWidth, inputs * kPanelWidth, steps,
                            call.y + panel * kPanelWidth, call.y_stride, static_cast<int>(call.rows), k == 0,
                            call.bias_at(panel, k + steps == inputs));
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

// At most kTileRows rows: every weight is read once and widened in registers. The time is that of reading the
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
  WithTileRows(call.rows, stream);
}

// Rows [first, end) of the call, packed into tiles.
struct PackedRows {
  const float* packed;
  int64_t first, end;
};

// A block of inputs of some panels.
struct Block {
  int64_t panel, k;
};

// One block of kPanels panels against the rows. The first tile meets 16-bit weights as they are stored and leaves them
// widened in the first-level cache for the others. Meanwhile the block `next`, where there is one, is fetched, every
// tile its share.
template <typename T, int kPanels>
HWY_INLINE void TilesOfBlock(const Call& call, const PackedRows& rows, Block at, const Block* next, float* scratch) {
  const int64_t inputs = call.weights.inputs;
  const int64_t steps = std::min(kInputBlock, inputs - at.k);
  const float* bias = call.bias_at(at.panel, at.k + steps == inputs);
  const T* stored = call.panel<T>(at.panel) + at.k * kPanelWidth;
  const Widened widened{scratch, kInputBlock * kPanelWidth};
  const int height = TileHeight(call.rows);

  constexpr int64_t kStepsOfLine = 64 / (kPanelWidth * static_cast<int64_t>(sizeof(T)));
  Fetch fetch{nullptr, inputs * kPanelWidth * static_cast<int64_t>(sizeof(T)), 0};
  int64_t lines = 0, lines_of_tile = 0;
  if (next != nullptr) {
    const int64_t tiles = (rows.end - rows.first + height - 1) / height;
    lines = (std::min(kInputBlock, inputs - next->k) + kStepsOfLine - 1) / kStepsOfLine;
    fetch.from = reinterpret_cast<const std::byte*>(call.panel<T>(next->panel) + next->k * kPanelWidth);
    fetch.interval = std::max<int64_t>(1, tiles * steps / lines);
    lines_of_tile = (steps + fetch.interval - 1) / fetch.interval;
  }

  int64_t row = rows.first;
  const auto tile = [&](const auto* weights, int64_t stride, auto tile_rows, auto keep) HWY_ATTR {
    constexpr int kRows = decltype(tile_rows)::value;
    const auto count = static_cast<int>(std::min<int64_t>(kRows, rows.end - row));
    Tile<std::remove_cvref_t<decltype(*weights)>, kRows, kPanels, decltype(keep)::value>(
        rows.packed + row * inputs + at.k * kRows, weights, stride, steps,
        call.y + row * call.y_stride + at.panel * kPanelWidth, call.y_stride, count, at.k == 0, bias, fetch, widened);
    row += count;
    lines -= lines_of_tile;
    fetch.from = lines > 0 ? fetch.from + lines_of_tile * 64 : nullptr;
  };
  const auto of_height = [&](const auto* weights, int64_t stride, auto keep) HWY_ATTR {
    if constexpr (TileHeight(kTileRows + 1) != kTileRows) {
      if (height != kTileRows) {
        return tile(weights, stride, std::integral_constant<int, TileHeight(kTileRows + 1)>(), keep);
      }
    }
    tile(weights, stride, std::integral_constant<int, kTileRows>(), keep);
  };
  if constexpr (!std::is_same_v<T, float>) of_height(stored, inputs * kPanelWidth, std::true_type());
  const auto [weights, stride] = [&] {
    if constexpr (std::is_same_v<T, float>) return std::pair(stored, inputs * kPanelWidth);
    return std::pair(static_cast<const float*>(scratch), widened.panel_stride);
  }();
  while (row + height <= rows.end) of_height(weights, stride, std::false_type());
  if (row == rows.end) return;
  WithTileRows(rows.end - row, [&](auto tile_rows) HWY_ATTR { tile(weights, stride, tile_rows, std::false_type()); });
}

// The rows against the panels [begin, end).
template <typename T>
HWY_INLINE void BlocksOfPanels(const Call& call, const PackedRows& rows, int64_t begin, int64_t end, float* scratch) {
  // Few rows stay in the second-level cache whole: they go along the panels, whose weights are read as they lie. Of
  // more rows the same inputs meet all panels.
  constexpr int64_t kCachedRowBytes = 1 << 19;
  const int64_t row_bytes = call.weights.inputs * static_cast<int64_t>(sizeof(float));
  const bool along = (rows.end - rows.first) * row_bytes <= kCachedRowBytes;
  const int64_t across = (end - begin + kTilePanels - 1) / kTilePanels;
  const int64_t blocks = (call.weights.inputs + kInputBlock - 1) / kInputBlock;
  const auto block = [&](int64_t index) {
    return along ? Block{begin + index / blocks * kTilePanels, index % blocks * kInputBlock}
                 : Block{begin + index % across * kTilePanels, index / across * kInputBlock};
  };
  for (int64_t index = 0; index < across * blocks; ++index) {
    Block at = block(index);
    const Block following = block(index + 1);
    const Block* next = index + 1 < across * blocks ? &following : nullptr;
    if (end - at.panel >= kTilePanels) {
      TilesOfBlock<T, kTilePanels>(call, rows, at, next, scratch);
      continue;
    }
    for (; at.panel < end; ++at.panel) TilesOfBlock<T, 1>(call, rows, at, next, scratch);
  }
}

// Many rows: every weight is widened once for all of them.
template <typename T>
void ManyRows(const Call& call) {
  const int64_t inputs = call.weights.inputs;
  float* packed = call.workspace.packed_rows();
  const int height = TileHeight(call.rows);
  call.pool.Run((call.rows + height - 1) / height, [&](int64_t tile, int) HWY_ATTR {
    const int64_t row = tile * height;
    const int64_t rows = std::min<int64_t>(height, call.rows - row);
    WithTileRows(rows, [&](auto tile_rows) HWY_ATTR {
      PackTile<decltype(tile_rows)::value>(call.x + row * call.x_stride, call.x_stride, rows, inputs,
                                           packed + row * inputs);
    });
  });
  // Rows that meet all panels of a task before the next ones do: their sums and a block of their inputs stay in the
  // second-level cache.
  constexpr int64_t kRowsAtATime = 16 * kTileRows;
  const int64_t panels = call.weights.panels();
  const int64_t share = panels / (call.pool.threads() * 4 * kTilePanels);
  const int64_t task_panels = std::clamp<int64_t>(share, 1, 16) * kTilePanels;
  call.pool.Run((panels + task_panels - 1) / task_panels, [&](int64_t task, int worker) HWY_ATTR {
    const int64_t begin = task * task_panels, end = std::min(begin + task_panels, panels);
    for (int64_t row = 0, last = 0; row < call.rows; row = last) {
      last = call.rows - row < kRowsAtATime + height ? call.rows : row + kRowsAtATime;  // a whole tile is left, or none
      BlocksOfPanels<T>(call, {packed, row, last}, begin, end, call.workspace.widened_panels(worker));
    }
  });
}

template <typename T>
void LinearOf(const Call& call) {
  call.rows <= kTileRows ? FewRows<T>(call) : ManyRows<T>(call);
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
