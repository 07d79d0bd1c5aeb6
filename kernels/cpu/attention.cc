#include "kernels/attention.h"

#include <algorithm>
#include <limits>

#include "kernels/panel_matrix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "kernels/cpu/tile-inl.h"

#ifndef BATON_KERNELS_CPU_ATTENTION_ONCE_
#define BATON_KERNELS_CPU_ATTENTION_ONCE_
namespace baton::cpu {

// A task is a tile of consecutive queries of one sequence with all heads of one kv head: at most kTaskRows rows, a row
// being one query of one head.
constexpr int64_t kTaskRows = kMaxHeadGroup;
constexpr int64_t kPaddedRows = kTaskRows + 12;   // a register tile may read past the last row
constexpr int64_t kRowStride = kMaxHeadDim + 16;  // not a power of two: neighbouring rows in different cache sets
constexpr int64_t kScoreStride = kAttentionRange + 16;

// One worker's memory.
struct AttentionScratch {
  float queries[kPaddedRows * kRowStride];      // [row][head_dim]
  float keys[kAttentionRange * kMaxHeadDim];    // [range / 16][head_dim][16 positions]
  float values[kAttentionRange * kMaxHeadDim];  // [head_dim / 16][range][16 elements]
  float scores[kPaddedRows * kScoreStride];     // [row][range]; then weights
  float range_sums[kPaddedRows * kRowStride];   // [row][head_dim]: sum p v of this range
  float sums[kPaddedRows * kRowStride];         // [row][head_dim]: merged so far
  float maxima[kPaddedRows];                    // merged so far
  float totals[kPaddedRows];                    // merged so far: sum of p
};

}  // namespace baton::cpu
#endif  // BATON_KERNELS_CPU_ATTENTION_ONCE_

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

struct AttentionTask {
  const AttentionShape& shape;
  const AttentionSequence& sequence;
  int64_t kv_head;
  int64_t first_query;  // within the sequence's queries
  int64_t queries;

  int64_t group() const { return shape.heads / shape.kv_heads; }
  int64_t position(int64_t query) const { return sequence.position + first_query + query; }
  // The half-open part of range [start, start + kAttentionRange) that a query sees; may be empty.
  int64_t VisibleBegin(int64_t query, int64_t start) const {
    const int64_t lowest = shape.window == 0 ? 0 : position(query) - shape.window + 1;
    return std::max<int64_t>(lowest - start, 0);
  }
  int64_t VisibleEnd(int64_t query, int64_t start) const {
    return std::min(position(query) + 1 - start, kAttentionRange);
  }
};

// The element of position `p` in the layer's keys or values, for this task's kv head.
template <typename T>
HWY_INLINE const T* KvRow(const AttentionTask& task, const void* base, int64_t p) {
  const AttentionShape& shape = task.shape;
  const int64_t block = task.sequence.blocks[p / shape.block_size];
  return static_cast<const T*>(base) + block * shape.block_stride +
         (task.kv_head * shape.block_size + p % shape.block_size) * shape.head_dim;
}

// Keys of `count` positions from `start` on, transposed to panels of 16 positions.
template <typename T>
HWY_INLINE void LoadKeys(const AttentionTask& task, const void* keys, int64_t start, int64_t count, float* out) {
  const int64_t head_dim = task.shape.head_dim;
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  // Four positions by four elements at a time.
  const hn::FixedTag<float, 4> d;
  const auto load = [&](const T* from) HWY_ATTR {
    if constexpr (std::is_same_v<T, float>) {
      return hn::LoadU(d, from);
    } else if constexpr (std::is_same_v<T, BF16Bits>) {
      const hn::Rebind<uint16_t, decltype(d)> d16;
      const hn::Rebind<uint32_t, decltype(d)> d32;
      return hn::BitCast(
          d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from)))));
    } else {
      const hn::Rebind<hwy::float16_t, decltype(d)> d16;
      return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
    }
  };
  for (; i + 4 <= count && head_dim % 4 == 0; i += 4) {
    const T* rows[4];
    for (int64_t j = 0; j < 4; ++j) rows[j] = KvRow<T>(task, keys, start + i + j);
    float* panel = out + i / 16 * head_dim * 16 + i % 16;
    for (int64_t e = 0; e < head_dim; e += 4) {
      const auto r0 = load(rows[0] + e), r1 = load(rows[1] + e), r2 = load(rows[2] + e), r3 = load(rows[3] + e);
      const auto low02 = hn::InterleaveLower(d, r0, r2), low13 = hn::InterleaveLower(d, r1, r3);
      const auto high02 = hn::InterleaveUpper(d, r0, r2), high13 = hn::InterleaveUpper(d, r1, r3);
      hn::Store(hn::InterleaveLower(d, low02, low13), d, panel + e * 16);
      hn::Store(hn::InterleaveUpper(d, low02, low13), d, panel + (e + 1) * 16);
      hn::Store(hn::InterleaveLower(d, high02, high13), d, panel + (e + 2) * 16);
      hn::Store(hn::InterleaveUpper(d, high02, high13), d, panel + (e + 3) * 16);
    }
  }
#endif
  for (; i < count; ++i) {
    const T* row = KvRow<T>(task, keys, start + i);
    float* panel = out + i / 16 * head_dim * 16 + i % 16;
    for (int64_t e = 0; e < head_dim; ++e) panel[e * 16] = ScalarF32(row[e]);
  }
}

// Values of `count` positions from `start` on, in panels of 16 elements.
template <typename T>
HWY_INLINE void LoadValues(const AttentionTask& task, const void* values, int64_t start, int64_t count, float* out) {
  const int64_t head_dim = task.shape.head_dim;
  for (int64_t i = 0; i < count; ++i) {
    const T* row = KvRow<T>(task, values, start + i);
    int64_t e = 0;
    for (; e + kLanes <= head_dim; e += kLanes) {
      hn::Store(LoadF32(row + e), F32Tag(), out + e / 16 * kAttentionRange * 16 + i * 16 + e % 16);
    }
    for (; e < head_dim; ++e) out[e / 16 * kAttentionRange * 16 + i * 16 + e % 16] = ScalarF32(row[e]);
  }
}

// out[row][o] = sum over steps of a[row][k] * panels, for `rows` rows and `panels` panels.
template <int kStride>
HWY_INLINE void MultiplyRows(const float* a, int64_t rows, int64_t steps, const float* b, int64_t panel_stride,
                             int64_t panels, float* out, int64_t out_stride) {
  for (int64_t row = 0; row < rows; row += kTileRows) {
    const int64_t left = std::min<int64_t>(kTileRows, rows - row);
    WithTileRows(left, [&](auto tile_rows) HWY_ATTR {
      constexpr int kRows = decltype(tile_rows)::value;
      constexpr int kPanels = std::min(4, StreamPanels(kRows));
      int64_t p = 0;
      for (; p + kPanels <= panels; p += kPanels) {
        Tile<float, kRows, kPanels, kStride, 1>(a + row * kStride, b + p * panel_stride, panel_stride, steps,
                                                out + row * out_stride + p * 16, out_stride, static_cast<int>(left),
                                                true, nullptr);
      }
      for (; p < panels; ++p) {
        Tile<float, kRows, 1, kStride, 1>(a + row * kStride, b + p * panel_stride, panel_stride, steps,
                                          out + row * out_stride + p * 16, out_stride, static_cast<int>(left), true,
                                          nullptr);
      }
    });
  }
}

struct RangeSoftmax {
  float maximum;
  float total;
};

// Scores of one row become weights exp(score * scale - maximum); columns outside [begin, end) weigh nothing.
HWY_INLINE RangeSoftmax Softmax(float* scores, float scale, int64_t begin, int64_t end) {
  const F32Tag d;
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < kAttentionRange; j += kLanes) {
    hn::Store(hn::Mul(LoadF32(scores + j), hn::Set(d, scale)), d, scores + j);
  }
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
  const float maximum = ReduceHalves(
      highest, [](F32 a, F32 b) HWY_ATTR { return hn::Max(a, b); }, [](float a, float b) { return a > b ? a : b; });
  for (int64_t j = 0; j < kAttentionRange; j += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const F32 weight = Exp(hn::Sub(LoadF32(scores + j + v * kLanes), hn::Set(d, maximum)));
      hn::Store(weight, d, scores + j + v * kLanes);
      total[v] = hn::Add(total[v], weight);
    }
  }
  return {maximum, SumHalves(total)};
}

HWY_INLINE float ScalarExp(float x) { return hn::GetLane(Exp(hn::Set(F32Tag(), x))); }

// Merges one row's range into what came before.
HWY_INLINE void Merge(const RangeSoftmax& range, const float* range_sum, int64_t width, float& maximum, float& total,
                      float* sum) {
  const F32Tag d;
  const float merged = std::max(maximum, range.maximum);
  const float old_share = ScalarExp(maximum - merged);  // 0 for the first range: maximum is -infinity
  const float new_share = ScalarExp(range.maximum - merged);
  maximum = merged;
  total = std::fma(range.total, new_share, total * old_share);
  for (int64_t e = 0; e < width; e += kLanes) {
    const F32 old_sum = hn::Mul(LoadF32(sum + e), hn::Set(d, old_share));
    hn::Store(Fma(LoadF32(range_sum + e), hn::Set(d, new_share), old_sum), d, sum + e);
  }
}

template <typename T>
void RunTask(const AttentionTask& task, const void* keys, const void* values, const float* queries, int64_t q_stride,
             float* out, int64_t out_stride, AttentionScratch& scratch) {
  const int64_t head_dim = task.shape.head_dim;
  const int64_t padded_dim = PaddedToPanel(head_dim);
  const int64_t group = task.group();
  const int64_t rows = task.queries * group;
  const int64_t first_head = task.kv_head * group;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t batch_row = task.sequence.first_row + task.first_query + row / group;
    const float* from = queries + batch_row * q_stride + (first_head + row % group) * head_dim;
    std::copy_n(from, head_dim, scratch.queries + row * kRowStride);
    std::fill_n(scratch.sums + row * kRowStride, padded_dim, 0.0f);
    scratch.maxima[row] = -std::numeric_limits<float>::infinity();
    scratch.totals[row] = 0.0f;
  }
  const int64_t end = task.position(task.queries - 1) + 1;
  const int64_t lowest = std::max<int64_t>(task.VisibleBegin(0, 0), 0);
  for (int64_t start = lowest / kAttentionRange * kAttentionRange; start < end; start += kAttentionRange) {
    const int64_t count = std::min(kAttentionRange, end - start);
    LoadKeys<T>(task, keys, start, count, scratch.keys);
    LoadValues<T>(task, values, start, count, scratch.values);
    // Queries that see any of this range are consecutive.
    int64_t first = 0, last = task.queries;
    while (first < last && task.VisibleEnd(first, start) <= 0) ++first;
    while (last > first && task.VisibleBegin(last - 1, start) >= kAttentionRange) --last;
    if (first == last) continue;
    const int64_t first_row = first * group, row_count = (last - first) * group;
    MultiplyRows<kRowStride>(scratch.queries + first_row * kRowStride, row_count, head_dim, scratch.keys, head_dim * 16,
                             (count + 15) / 16, scratch.scores + first_row * kScoreStride, kScoreStride);
    RangeSoftmax ranges[kTaskRows];
    bool all_full = true;
    for (int64_t query = first; query < last; ++query) {
      const int64_t begin = task.VisibleBegin(query, start), visible_end = task.VisibleEnd(query, start);
      all_full = all_full && begin == 0 && visible_end == kAttentionRange;
      for (int64_t row = query * group; row < (query + 1) * group; ++row) {
        ranges[row] = Softmax(scratch.scores + row * kScoreStride, task.shape.scale, begin, visible_end);
      }
    }
    const int64_t value_panels = padded_dim / 16;
    const auto weigh = [&](int64_t row, int64_t count_rows, int64_t begin, int64_t visible_end) HWY_ATTR {
      MultiplyRows<kScoreStride>(scratch.scores + row * kScoreStride + begin, count_rows, visible_end - begin,
                                 scratch.values + begin * 16, kAttentionRange * 16, value_panels,
                                 scratch.range_sums + row * kRowStride, kRowStride);
    };
    if (all_full) {
      weigh(first_row, row_count, 0, kAttentionRange);
    } else {  // never touch values that a query does not see: their memory may hold anything
      for (int64_t query = first; query < last; ++query) {
        weigh(query * group, group, task.VisibleBegin(query, start), task.VisibleEnd(query, start));
      }
    }
    for (int64_t row = first_row; row < first_row + row_count; ++row) {
      Merge(ranges[row], scratch.range_sums + row * kRowStride, padded_dim, scratch.maxima[row], scratch.totals[row],
            scratch.sums + row * kRowStride);
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t batch_row = task.sequence.first_row + task.first_query + row / group;
    float* to = out + batch_row * out_stride + (first_head + row % group) * head_dim;
    const float* sum = scratch.sums + row * kRowStride;
    for (int64_t e = 0; e < head_dim; ++e) to[e] = sum[e] / scratch.totals[row];
  }
}

void AttentionTaskImpl(const AttentionShape& shape, const AttentionSequence& sequence, int64_t kv_head,
                       int64_t first_query, int64_t query_count, const void* keys, const void* values,
                       const float* queries, int64_t q_stride, float* out, int64_t out_stride,
                       AttentionScratch& scratch) {
  const AttentionTask task{shape, sequence, kv_head, first_query, query_count};
  switch (shape.kv_dtype) {
    case DType::kF16:
      return RunTask<F16Bits>(task, keys, values, queries, q_stride, out, out_stride, scratch);
    case DType::kBF16:
      return RunTask<BF16Bits>(task, keys, values, queries, q_stride, out, out_stride, scratch);
    default:
      return RunTask<float>(task, keys, values, queries, q_stride, out, out_stride, scratch);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {

const int64_t AttentionWorkspace::kFloats = (sizeof(AttentionScratch) + 63) / 64 * 16;

AttentionWorkspace::AttentionWorkspace(int threads)
    : scratch_(ZeroedFloats(static_cast<uint64_t>(threads * kFloats))) {}

HWY_EXPORT(AttentionTaskImpl);

void Attention(const AttentionShape& shape, std::span<const AttentionSequence> sequences, const void* keys,
               const void* values, const float* queries, int64_t q_stride, float* out, int64_t out_stride,
               const AttentionWorkspace& workspace, ThreadPool& pool) {
  const int64_t tile = std::max<int64_t>(1, kTaskRows / (shape.heads / shape.kv_heads));
  const auto tiles_of = [&](const AttentionSequence& sequence) { return (sequence.queries + tile - 1) / tile; };
  int64_t tasks = 0;
  for (const AttentionSequence& sequence : sequences) tasks += tiles_of(sequence) * shape.kv_heads;
  pool.Run(tasks, [&](int64_t task, int worker) {
    size_t index = 0;
    for (; task >= tiles_of(sequences[index]) * shape.kv_heads; ++index) {
      task -= tiles_of(sequences[index]) * shape.kv_heads;
    }
    const AttentionSequence& sequence = sequences[index];
    // Later queries see more: start with them, so that the threads end together.
    const int64_t first = (tiles_of(sequence) - 1 - task / shape.kv_heads) * tile;
    HWY_DYNAMIC_DISPATCH(AttentionTaskImpl)
    (shape, sequence, task % shape.kv_heads, first, std::min(tile, sequence.queries - first), keys, values, queries,
     q_stride, out, out_stride, *reinterpret_cast<AttentionScratch*>(workspace.scratch(worker)));
  });
}

}  // namespace baton::cpu
#endif  // HWY_ONCE
