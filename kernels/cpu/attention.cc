#include "kernels/attention.h"

#include <algorithm>
#include <limits>

#include "kernels/panel_matrix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "kernels/cpu/attention_tile-inl.h"

#ifndef BATON_KERNELS_CPU_ATTENTION_ONCE_
#define BATON_KERNELS_CPU_ATTENTION_ONCE_
namespace baton::cpu {

// What was merged so far, of every row of a tile. A row is one query of one head.
struct AttentionState {
  float* maxima;  // [rows]; -infinity: nothing yet
  float* totals;  // [rows]: sum of p
  float* sums;    // [rows][padded head_dim]: sum of p v
};

// One worker's memory.
struct AttentionScratch {
  float queries[kAttentionRows * kQueryStride];  // [row][head_dim]
  float keys[kAttentionRange * kMaxHeadDim];     // [range / 16][head_dim][16 positions], widened
  float values[kAttentionRange * kMaxHeadDim];   // [range][padded head_dim], widened
  float key_scales[kAttentionRange];             // int8 only, as are the next
  float value_scales[kAttentionRange];
  float scores[kAttentionRows * kScoreStride];     // [row][range]; then weights
  float range_sums[kAttentionRows * kMaxHeadDim];  // [row][padded head_dim]: begun sums of this range
  float range_maxima[kAttentionRows];
  float range_totals[kAttentionRows];
  float old_shares[kAttentionRows];                   // what a merge leaves of the state ...
  float new_shares[kAttentionRows];                   // ... and takes of the range
  float segment[kAttentionRows * (kMaxHeadDim + 2)];  // AttentionState
  float merged[kAttentionRows * (kMaxHeadDim + 2)];   // AttentionState
};

// A tile of consecutive queries of one sequence with all heads of one kv head, and a run of segments.
struct AttentionTask {
  const AttentionShape& shape;
  const AttentionSequence& sequence;
  const std::byte* keys;
  const std::byte* values;
  const float* queries;
  int64_t q_stride;
  float* out;
  int64_t out_stride;
  int64_t kv_head;
  int64_t first_query;  // within the sequence's queries
  int64_t query_count;
  int64_t first_segment;
  int64_t end_segment;
  AttentionScratch& scratch;

  int64_t group() const { return shape.heads / shape.kv_heads; }
  int64_t rows() const { return query_count * group(); }
  int64_t padded_dim() const { return PaddedToPanel(shape.head_dim); }
  int64_t position(int64_t query) const { return sequence.position + first_query + query; }
  // The half-open part of range [start, start + kAttentionRange) that a query sees; may be empty.
  int64_t VisibleBegin(int64_t query, int64_t start) const {
    const int64_t lowest = shape.window == 0 ? 0 : position(query) - shape.window + 1;
    return std::max<int64_t>(lowest - start, 0);
  }
  int64_t VisibleEnd(int64_t query, int64_t start) const {
    return std::min(position(query) + 1 - start, kAttentionRange);
  }
  int64_t end() const { return position(query_count - 1) + 1; }  // of what any query sees
  int64_t begin() const { return VisibleBegin(0, 0) / kAttentionRange * kAttentionRange; }

  // This kv head's piece of the block that holds position p.
  const std::byte* Piece(const std::byte* base, int64_t p) const {
    return base + sequence.blocks[p / shape.block_size] * shape.block_stride + kv_head * shape.head_stride;
  }
  float* row_out(int64_t row) const {
    return out + (sequence.first_row + first_query + row / group()) * out_stride +
           (kv_head * group() + row % group()) * shape.head_dim;
  }
};

inline int64_t PaddedRows(int64_t rows) { return (rows + 15) / 16 * 16; }
// Floats that the state of `rows` rows takes.
inline int64_t StateFloats(int64_t rows, int64_t padded_dim) { return PaddedRows(rows) * (padded_dim + 2); }
inline AttentionState StateAt(float* memory, int64_t rows) {
  return {memory, memory + PaddedRows(rows), memory + 2 * PaddedRows(rows)};
}

}  // namespace baton::cpu
#endif  // BATON_KERNELS_CPU_ATTENTION_ONCE_

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

// Up to so many rows meet the pool's numbers directly, each widened once for all of them; more rows are worth a copy.
constexpr int64_t kDirectRows = 8;

// Where the numbers of one range lie, 16 positions at a time.
template <typename T>
struct RangeData {
  const T* keys[kAttentionRange / 16];    // step of head_dim: key_stride
  const T* values[kAttentionRange / 16];  // next position: value_stride
  int64_t key_stride;
  int64_t value_stride;
};

template <typename T>
HWY_INLINE RangeData<T> InPool(const AttentionTask& task, int64_t start, int64_t count) {
  const AttentionShape& shape = task.shape;
  RangeData<T> data{{}, {}, shape.block_size, shape.head_dim};
  int64_t block = start / shape.block_size, slot = start % shape.block_size;
  for (int64_t i = 0; i < kAttentionRange; i += 16) {
    if (i >= count) {  // nothing there: fetched ahead at most
      data.keys[i / 16] = data.keys[0];
      data.values[i / 16] = data.values[0];
      continue;
    }
    const int64_t offset = task.sequence.blocks[block] * shape.block_stride + task.kv_head * shape.head_stride;
    data.keys[i / 16] = reinterpret_cast<const T*>(task.keys + offset) + slot;
    data.values[i / 16] = reinterpret_cast<const T*>(task.values + offset) + slot * shape.head_dim;
    slot += 16;
    if (slot == shape.block_size) {
      slot = 0;
      ++block;
    }
  }
  return data;
}

template <typename T>
HWY_INLINE void WidenKeys(const AttentionTask& task, int64_t start, int64_t count, float* out) {
  const int64_t head_dim = task.shape.head_dim, block_size = task.shape.block_size;
  if (block_size % 16 == 0) {
    for (int64_t i = 0; i < count; i += 16) {
      const T* piece = reinterpret_cast<const T*>(task.Piece(task.keys, start + i)) + (start + i) % block_size;
      float* panel = out + i * head_dim;
      for (int64_t e = 0; e < head_dim; ++e) {
        for (int v = 0; v < kVectors; ++v) {
          hn::Store(LoadF32(piece + e * block_size + v * kLanes), F32Tag(), panel + e * 16 + v * kLanes);
        }
      }
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const T* piece = reinterpret_cast<const T*>(task.Piece(task.keys, start + i)) + (start + i) % block_size;
    float* panel = out + i / 16 * head_dim * 16 + i % 16;
    for (int64_t e = 0; e < head_dim; ++e) panel[e * 16] = ScalarF32(piece[e * block_size]);
  }
}

template <typename T>
HWY_INLINE void WidenValues(const AttentionTask& task, int64_t start, int64_t count, float* out) {
  const int64_t head_dim = task.shape.head_dim, padded_dim = task.padded_dim();
  for (int64_t i = 0; i < count; ++i) {
    const T* row =
        reinterpret_cast<const T*>(task.Piece(task.values, start + i)) + (start + i) % task.shape.block_size * head_dim;
    float* to = out + i * padded_dim;
    int64_t e = 0;
    for (; e + kLanes <= head_dim; e += kLanes) hn::Store(LoadF32(row + e), F32Tag(), to + e);
    for (; e < head_dim; ++e) to[e] = ScalarF32(row[e]);
  }
}

// The scales that stand behind the numbers of a piece.
HWY_INLINE void CopyScales(const AttentionTask& task, const std::byte* base, int64_t start, int64_t count, float* out) {
  const int64_t block_size = task.shape.block_size;
  for (int64_t i = 0; i < count;) {
    const int64_t slot = (start + i) % block_size, run = std::min(block_size - slot, count - i);
    const std::byte* scales = task.Piece(base, start + i) + block_size * task.shape.head_dim;
    std::copy_n(reinterpret_cast<const float*>(scales) + slot, run, out + i);
    i += run;
  }
}

// Calls body(row, rows of this tile, std::integral_constant height) until all `rows` are done.
template <typename T, typename Body>
HWY_INLINE void ForTiles(int64_t rows, const Body& body) {
  for (int64_t row = 0; row < rows;) {
    const int64_t left = rows - row;
    if constexpr (kTileRows == 12) {
      const int64_t take = std::min<int64_t>(left, kTileRows);
      if (take == 1) {
        body(row, take, std::integral_constant<int, 1>());
      } else if (take == 2) {
        body(row, take, std::integral_constant<int, 2>());
      } else if (take <= 4) {
        body(row, take, std::integral_constant<int, 4>());
      } else if (take <= 7) {
        body(row, take, std::integral_constant<int, 7>());
      } else if (take == 8) {
        body(row, take, std::integral_constant<int, 8>());
      } else {
        if constexpr (std::is_same_v<T, float>) body(row, take, std::integral_constant<int, kTileRows>());
      }
      row += take;
    } else {
      const int64_t take = left == 7 || left == 8 ? 4 : std::min<int64_t>(left, kTileRows);
      if (take == 1) {
        body(row, take, std::integral_constant<int, 1>());
      } else if (take == 2) {
        body(row, take, std::integral_constant<int, 2>());
      } else if (take <= 4) {
        body(row, take, std::integral_constant<int, 4>());
      } else {
        body(row, take, std::integral_constant<int, kTileRows>());
      }
      row += take;
    }
  }
}

// Scaled scores of `rows` rows from `first_row` on with the first `count` positions of a range.
template <typename T>
HWY_INLINE void Scores(const AttentionTask& task, const RangeData<T>& data, int64_t first_row, int64_t rows,
                       int64_t count, bool prefetch) {
  AttentionScratch& scratch = task.scratch;
  const int64_t panels = (count + 15) / 16;
  const float* key_scales = task.shape.kv_dtype == DType::kI8 ? scratch.key_scales : nullptr;
  ForTiles<T>(rows, [&](int64_t row, int64_t tile_rows, auto height) HWY_ATTR {
    constexpr int kRows = decltype(height)::value;
    constexpr int kPanels = TilePanels(kRows);
    const float* queries = scratch.queries + (first_row + row) * kQueryStride;
    float* scores = scratch.scores + (first_row + row) * kScoreStride;
    const auto tile = [&](int64_t panel, auto panel_count) HWY_ATTR {
      ScoreTile<T, kRows, decltype(panel_count)::value>(
          queries, data.keys + panel, data.key_stride, task.shape.head_dim, task.shape.scale,
          key_scales == nullptr ? nullptr : key_scales + panel * 16,
          prefetch && row == 0 ? data.values + panel : nullptr, static_cast<int>(tile_rows), scores + panel * 16);
    };
    int64_t panel = 0;
    for (; panel + kPanels <= panels; panel += kPanels) tile(panel, std::integral_constant<int, kPanels>());
    for (; panel < panels; ++panel) tile(panel, std::integral_constant<int, 1>());
  });
}

// One row's scores become weights exp(score - maximum), its maximum and total are noted; columns outside [begin, end)
// weigh nothing.
HWY_INLINE void Softmax(AttentionScratch& scratch, int64_t row, int64_t begin, int64_t end, const float* value_scales) {
  const F32Tag d;
  float* scores = scratch.scores + row * kScoreStride;
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < begin; ++j) scores[j] = minus_infinity;
  for (int64_t j = end; j < kAttentionRange; ++j) scores[j] = minus_infinity;
  F32 highest[kVectors], total[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    highest[v] = LoadF32(scores + v * kLanes);
    total[v] = hn::Zero(d);
    for (int64_t j = 16; j < kAttentionRange; j += 16) {
      highest[v] = hn::Max(highest[v], LoadF32(scores + j + v * kLanes));
    }
  }
  const float maximum = MaxHalves(highest);
  for (int64_t j = 0; j < kAttentionRange; j += 16) {
    for (int v = 0; v < kVectors; ++v) {
      F32 weight = Exp(hn::Sub(LoadF32(scores + j + v * kLanes), hn::Set(d, maximum)));
      total[v] = hn::Add(total[v], weight);
      if (value_scales != nullptr) weight = hn::Mul(weight, LoadF32(value_scales + j + v * kLanes));
      hn::Store(weight, d, scores + j + v * kLanes);
    }
  }
  scratch.range_maxima[row] = maximum;
  scratch.range_totals[row] = SumHalves(total);
}

// Maxima and totals of `rows` rows from `first_row` on with the range's merged in, and the shares that the sums take.
HWY_INLINE void MergeTotals(AttentionScratch& scratch, AttentionState state, int64_t first_row, int64_t rows) {
  const F32Tag d;
  for (int64_t row = first_row; row < first_row + rows; row += kLanes) {
    const auto live = hn::FirstN(d, static_cast<size_t>(std::min<int64_t>(kLanes, first_row + rows - row)));
    const F32 maximum = LoadF32(state.maxima + row), range_maximum = LoadF32(scratch.range_maxima + row);
    const F32 merged = hn::IfThenElse(hn::Gt(range_maximum, maximum), range_maximum, maximum);
    const F32 old_share = Exp(hn::Sub(maximum, merged));  // 0 for the first range: its maximum is -infinity
    const F32 new_share = Exp(hn::Sub(range_maximum, merged));
    const F32 total =
        Fma(LoadF32(scratch.range_totals + row), new_share, hn::Mul(LoadF32(state.totals + row), old_share));
    hn::BlendedStore(merged, live, d, state.maxima + row);
    hn::BlendedStore(total, live, d, state.totals + row);
    hn::StoreU(old_share, d, scratch.old_shares + row);
    hn::StoreU(new_share, d, scratch.new_shares + row);
  }
}

// Adds the values at [begin, end) of a range to the sums of `rows` rows from `first_row` on.
template <typename T>
HWY_INLINE void Values(const AttentionTask& task, const RangeData<T>& data, int64_t first_row, int64_t rows,
                       int64_t begin, int64_t end, bool continues, bool ends, AttentionState state,
                       const RangeData<T>* prefetch) {
  AttentionScratch& scratch = task.scratch;
  const int64_t padded_dim = task.padded_dim();
  ForTiles<T>(rows, [&](int64_t tile_row, int64_t tile_rows, auto height) HWY_ATTR {
    constexpr int kRows = decltype(height)::value;
    constexpr int kPanels = TilePanels(kRows);
    const int64_t row = first_row + tile_row;
    const auto tile = [&](int64_t e, auto panel_count) HWY_ATTR {
      ValueTile<T, kRows, decltype(panel_count)::value>(
          scratch.scores + row * kScoreStride, data.values, data.value_stride, e, begin, end,
          prefetch != nullptr && tile_row == 0 ? prefetch->keys : nullptr, static_cast<int>(tile_rows), padded_dim,
          scratch.range_sums + row * padded_dim + e, continues, ends ? state.sums + row * padded_dim + e : nullptr,
          scratch.old_shares + row, scratch.new_shares + row);
    };
    int64_t e = 0;
    for (; e + kPanels * 16 <= padded_dim; e += kPanels * 16) tile(e, std::integral_constant<int, kPanels>());
    for (; e < padded_dim; e += 16) tile(e, std::integral_constant<int, 1>());
  });
}

// Merges the range of `count` positions from `start` on into `state`.
template <typename T>
HWY_INLINE void AddRange(const AttentionTask& task, const RangeData<T>& data, int64_t start, int64_t count,
                         AttentionState state, const RangeData<T>* next) {
  // Queries that see any of this range are consecutive.
  int64_t first = 0, last = task.query_count;
  while (first < last && task.VisibleEnd(first, start) <= 0) ++first;
  while (last > first && task.VisibleBegin(last - 1, start) >= kAttentionRange) --last;
  if (first == last) return;
  const int64_t group = task.group(), first_row = first * group, rows = (last - first) * group;
  AttentionScratch& scratch = task.scratch;
  const float* value_scales = nullptr;
  if (task.shape.kv_dtype == DType::kI8) {
    CopyScales(task, task.keys, start, count, scratch.key_scales);
    CopyScales(task, task.values, start, count, scratch.value_scales);
    value_scales = scratch.value_scales;
  }
  Scores(task, data, first_row, rows, count, next != nullptr);
  for (int64_t query = first; query < last; ++query) {
    const int64_t begin = task.VisibleBegin(query, start), end = task.VisibleEnd(query, start);
    for (int64_t row = query * group; row < (query + 1) * group; ++row) {
      Softmax(scratch, row, begin, end, value_scales);
    }
  }
  MergeTotals(scratch, state, first_row, rows);
  // Never touch values that a query does not see: their memory may hold anything. What all queries see is added for
  // all of them, then each one's rest.
  const int64_t begin = task.VisibleBegin(last - 1, start);
  const int64_t common = begin == task.VisibleBegin(first, start) ? task.VisibleEnd(first, start) : begin;
  const bool is_rest = common < task.VisibleEnd(last - 1, start);
  if (common > begin) Values(task, data, first_row, rows, begin, common, false, !is_rest, state, next);
  if (!is_rest) return;
  for (int64_t query = first; query < last; ++query) {
    const int64_t rest = common > begin ? common : task.VisibleBegin(query, start);
    Values<T>(task, data, query * group, group, rest, task.VisibleEnd(query, start), common > begin, true, state,
              nullptr);
  }
}

template <typename T>
void RunSegment(const AttentionTask& task, int64_t segment, AttentionState state) {
  const int64_t rows = task.rows();
  std::fill_n(state.maxima, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(state.totals, rows, 0.0f);
  std::fill_n(state.sums, rows * task.padded_dim(), 0.0f);
  const int64_t begin = std::max(segment * kAttentionSegment, task.begin());
  const int64_t end = std::min((segment + 1) * kAttentionSegment, task.end());
  const bool direct = rows <= kDirectRows && task.shape.block_size % 16 == 0 && task.shape.head_dim % 16 == 0;
  const int64_t task_end = std::min(task.end_segment * kAttentionSegment, task.end());
  const auto in_pool = [&](int64_t start)
                           HWY_ATTR { return InPool<T>(task, start, std::min(kAttentionRange, task_end - start)); };
  RangeData<T> here{};
  if (direct) here = in_pool(begin);
  for (int64_t start = begin; start < end; start += kAttentionRange) {
    const int64_t count = std::min(kAttentionRange, end - start);
    if (direct) {
      const RangeData<T> next = start + kAttentionRange < task_end ? in_pool(start + kAttentionRange) : here;
      AddRange(task, here, start, count, state, &next);
      here = next;
      continue;
    }
    AttentionScratch& scratch = task.scratch;
    RangeData<float> data{{}, {}, 16, task.padded_dim()};
    for (int64_t i = 0; i < kAttentionRange / 16; ++i) {
      data.keys[i] = scratch.keys + i * 16 * task.shape.head_dim;
      data.values[i] = scratch.values + i * 16 * task.padded_dim();
    }
    WidenKeys<T>(task, start, count, scratch.keys);
    WidenValues<T>(task, start, count, scratch.values);
    AddRange<float>(task, data, start, count, state, nullptr);
  }
}

// A segment into what was merged of the segments before it.
HWY_INLINE void MergeSegment(const AttentionTask& task, AttentionState segment, AttentionState merged) {
  const F32Tag d;
  AttentionScratch& scratch = task.scratch;
  const int64_t rows = task.rows(), padded_dim = task.padded_dim();
  std::copy_n(segment.maxima, rows, scratch.range_maxima);
  std::copy_n(segment.totals, rows, scratch.range_totals);
  for (int64_t row = 0; row < rows; ++row) {
    // Nothing of the segment lies in this row's window.
    if (segment.maxima[row] == -std::numeric_limits<float>::infinity() && segment.totals[row] == 0.0f) continue;
    MergeTotals(scratch, merged, row, 1);
    const F32 old_share = hn::Set(d, scratch.old_shares[row]), new_share = hn::Set(d, scratch.new_shares[row]);
    const float* from = segment.sums + row * padded_dim;
    float* to = merged.sums + row * padded_dim;
    for (int64_t e = 0; e < padded_dim; e += kLanes) {
      hn::StoreU(Fma(LoadF32(from + e), new_share, hn::Mul(LoadF32(to + e), old_share)), d, to + e);
    }
  }
}

HWY_INLINE AttentionState StartMerge(const AttentionTask& task) {
  const AttentionState merged = StateAt(task.scratch.merged, task.rows());
  std::fill_n(merged.maxima, task.rows(), -std::numeric_limits<float>::infinity());
  std::fill_n(merged.totals, task.rows(), 0.0f);
  std::fill_n(merged.sums, task.rows() * task.padded_dim(), 0.0f);
  return merged;
}

HWY_INLINE void WriteOut(const AttentionTask& task, AttentionState merged) {
  const F32Tag d;
  const int64_t head_dim = task.shape.head_dim;
  for (int64_t row = 0; row < task.rows(); ++row) {
    float* to = task.row_out(row);
    const float* sum = merged.sums + row * task.padded_dim();
    const float total = merged.totals[row];
    int64_t e = 0;
    for (; e + kLanes <= head_dim; e += kLanes) hn::StoreU(hn::Div(LoadF32(sum + e), hn::Set(d, total)), d, to + e);
    for (; e < head_dim; ++e) to[e] = sum[e] / total;
  }
}

// partials: where each segment's state belongs, the first one's first; null: this task merges them itself.
template <typename T>
void RunTask(const AttentionTask& task, float* partials) {
  AttentionScratch& scratch = task.scratch;
  const int64_t rows = task.rows(), group = task.group(), head_dim = task.shape.head_dim;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t batch_row = task.sequence.first_row + task.first_query + row / group;
    const float* from = task.queries + batch_row * task.q_stride + (task.kv_head * group + row % group) * head_dim;
    std::copy_n(from, head_dim, scratch.queries + row * kQueryStride);
  }
  const AttentionState merged = StartMerge(task);
  for (int64_t segment = task.first_segment; segment < task.end_segment; ++segment) {
    const AttentionState state = StateAt(
        partials == nullptr ? scratch.segment : partials + segment * StateFloats(rows, task.padded_dim()), rows);
    RunSegment<T>(task, segment, state);
    if (partials == nullptr) MergeSegment(task, state, merged);
  }
  if (partials == nullptr) WriteOut(task, merged);
}

void RunTaskImpl(const AttentionTask& task, float* partials) {
  switch (task.shape.kv_dtype) {
    case DType::kF16:
      return RunTask<F16Bits>(task, partials);
    case DType::kBF16:
      return RunTask<BF16Bits>(task, partials);
    case DType::kI8:
      return RunTask<int8_t>(task, partials);
    default:
      return RunTask<float>(task, partials);
  }
}

// The task covers all segments here.
void MergePartialsImpl(const AttentionTask& task, float* partials) {
  const AttentionState merged = StartMerge(task);
  for (int64_t segment = task.first_segment; segment < task.end_segment; ++segment) {
    MergeSegment(task, StateAt(partials + segment * StateFloats(task.rows(), task.padded_dim()), task.rows()), merged);
  }
  WriteOut(task, merged);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {
namespace {

constexpr int64_t kScratchBytes = (sizeof(AttentionScratch) + 63) / 64 * 64;
constexpr int64_t kPartialFloats = 1 << 20;
constexpr int64_t kCounters = 4096;
constexpr int64_t kTasksPerThread = 4;  // enough for threads to end together

int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

HWY_EXPORT(RunTaskImpl);
HWY_EXPORT(MergePartialsImpl);

AttentionWorkspace::AttentionWorkspace(int threads, int64_t max_sequences)
    : scratch_(ZeroedFloats(static_cast<uint64_t>(threads * kScratchBytes) / sizeof(float))),
      partials_(threads == 1 ? AlignedBuffer() : AlignedBuffer(kPartialFloats * sizeof(float))),
      finished_(new std::atomic<int32_t>[kCounters]()),
      shares_(static_cast<size_t>(max_sequences)) {}

uint64_t AttentionWorkspace::BytesFor(int threads, int64_t max_sequences) {
  return static_cast<uint64_t>(threads * kScratchBytes) + (threads == 1 ? 0 : kPartialFloats * sizeof(float)) +
         kCounters * sizeof(std::atomic<int32_t>) + static_cast<uint64_t>(max_sequences) * sizeof(Share);
}

AttentionCall::AttentionCall(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
                             const void* keys, const void* values, const float* queries, int64_t q_stride, float* out,
                             int64_t out_stride, AttentionWorkspace& workspace, int threads)
    : shape_(shape),
      sequences_(sequences),
      keys_(static_cast<const std::byte*>(keys)),
      values_(static_cast<const std::byte*>(values)),
      queries_(queries),
      q_stride_(q_stride),
      out_(out),
      out_stride_(out_stride),
      workspace_(workspace),
      tile_(std::max<int64_t>(1, kMaxHeadGroup / (shape.heads / shape.kv_heads))) {
  const auto parts_of = [&](const AttentionSequence& sequence) {
    return Ceil(sequence.queries, tile_) * shape.kv_heads;
  };
  const auto segments_of = [&](const AttentionSequence& sequence) {
    return Ceil(sequence.position + sequence.queries, kAttentionSegment);
  };
  int64_t parts = 0, segments = 0;
  for (const AttentionSequence& sequence : sequences) {
    parts += parts_of(sequence);
    segments += parts_of(sequence) * segments_of(sequence);
  }
  // Splitting along positions costs a merge: only where there are too few tasks without it.
  const int64_t wanted = threads == 1 ? 0 : kTasksPerThread * threads;
  const int64_t run = parts >= wanted ? INT64_MAX : std::max<int64_t>(1, segments / wanted);
  int64_t partials = 0, counters = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const AttentionSequence& sequence = sequences[i];
    const int64_t rows = std::min(tile_, sequence.queries) * (shape.heads / shape.kv_heads);
    const int64_t floats =
        parts_of(sequence) * segments_of(sequence) * StateFloats(rows, PaddedToPanel(shape.head_dim));
    int64_t splits = run == INT64_MAX ? 1 : Ceil(segments_of(sequence), run);
    if (partials + floats > kPartialFloats || counters + parts_of(sequence) > kCounters) splits = 1;
    workspace.shares_[i] = {tasks_, splits, partials, counters};
    tasks_ += parts_of(sequence) * splits;
    if (splits == 1) continue;
    partials += floats;
    counters += parts_of(sequence);
  }
}

void AttentionCall::Run(int64_t task, int worker) const {
  const auto* shares = workspace_.shares_.data();
  const auto* share = std::upper_bound(shares, shares + sequences_.size(), task,
                                       [](int64_t t, const auto& s) { return t < s.first_task; }) -
                      1;
  const AttentionSequence& sequence = sequences_[static_cast<size_t>(share - shares)];
  const int64_t index = task - share->first_task;
  const int64_t part = index / share->splits, split = index % share->splits;
  // Later queries see more: start with them, so that the threads end together.
  const int64_t tiles = Ceil(sequence.queries, tile_);
  const int64_t first_query = (tiles - 1 - part / shape_.kv_heads) * tile_;
  AttentionTask run{
      .shape = shape_,
      .sequence = sequence,
      .keys = keys_,
      .values = values_,
      .queries = queries_,
      .q_stride = q_stride_,
      .out = out_,
      .out_stride = out_stride_,
      .kv_head = part % shape_.kv_heads,
      .first_query = first_query,
      .query_count = std::min(tile_, sequence.queries - first_query),
      .first_segment = 0,
      .end_segment = 0,
      .scratch = *reinterpret_cast<AttentionScratch*>(workspace_.scratch_.data() + worker * kScratchBytes)};
  const int64_t first_segment = run.begin() / kAttentionSegment, end_segment = Ceil(run.end(), kAttentionSegment);
  if (share->splits == 1) {
    run.first_segment = first_segment;
    run.end_segment = end_segment;
    return HWY_DYNAMIC_DISPATCH(RunTaskImpl)(run, nullptr);
  }
  const int64_t all = Ceil(sequence.position + sequence.queries, kAttentionSegment);
  run.first_segment = std::max(first_segment, all * split / share->splits);
  run.end_segment = std::min(end_segment, all * (split + 1) / share->splits);
  const int64_t rows = std::min(tile_, sequence.queries) * run.group();
  float* partials =
      workspace_.partials_.floats() + share->first_partial + part * all * StateFloats(rows, run.padded_dim());
  if (run.first_segment < run.end_segment) HWY_DYNAMIC_DISPATCH(RunTaskImpl)(run, partials);
  std::atomic<int32_t>& finished = workspace_.finished_[static_cast<size_t>(share->first_counter + part)];
  if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 < share->splits) return;
  finished.store(0, std::memory_order_relaxed);  // for the next call
  run.first_segment = first_segment;
  run.end_segment = end_segment;
  HWY_DYNAMIC_DISPATCH(MergePartialsImpl)(run, partials);
}

}  // namespace baton::cpu
#endif  // HWY_ONCE
