#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cuda/decode_attention.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"

namespace baton::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int64_t kBlocks = 2048;  // of a grid, but for what rows and heads need: more would do nothing but end at once
constexpr int kMergeThreads = 128;
constexpr int kEach = 8;   // elements of head_dim a lane holds
constexpr int kBatch = 4;  // positions a lane has under way at once
constexpr float kLog2E = 1.44269504f;
constexpr float kNothing = -INFINITY;

struct Arguments {
  PagedKv kv;
  PagedRows rows;
  int heads, group, passes;  // query heads of a kv head, and how many times a block's group goes into them
  int window;
  int block_shift;  // positions a block has, as a power of two
  float scale;      // of scores in powers of two
  int splits;
  int64_t q_stride;
  const void* queries;
  float* maxima;  // [rows, heads, splits]
  float* totals;  // [rows, heads, splits]
  float* sums;    // [rows, heads, splits, head_dim]
};

// The positions [begin, end) that a row sees.
struct Seen {
  int begin, end;
};
__device__ __forceinline__ Seen SeenBy(const Arguments& a, int64_t row) {
  const int position = a.rows.positions[row];
  const int begin = a.window == 0 ? 0 : position - a.window + 1;
  return {begin > 0 ? begin : 0, position + 1};
}

template <typename T>
struct Raw {
  Pack<T, sizeof(T) == 4 ? 4 : 8> parts[sizeof(T) == 4 ? 2 : 1];
};
template <typename T>
__device__ __forceinline__ void Widen(const Raw<T>& raw, float (&values)[kEach]) {
  constexpr int kInPart = sizeof(T) == 4 ? 4 : 8;
  BATON_UNROLL
  for (int i = 0; i < kEach; ++i) values[i] = ToFloat(raw.parts[i / kInPart].values[i % kInPart]);
}

// 2^(a - b) where b >= a may be -infinity, too.
__device__ __forceinline__ float Fade(float a, float b) { return b == kNothing ? 0.0f : Exp2(a - b); }

// What a lane knows of the positions it has seen, for kGroup query heads.
template <int kGroup>
struct Softmax {
  float maxima[kGroup], totals[kGroup], sums[kGroup][kEach];
};

// Of lanes `distance` apart, which saw different positions; both get the same.
template <int kGroup>
__device__ __forceinline__ void MergeLanes(Softmax<kGroup>& state, int distance) {
  BATON_UNROLL
  for (int g = 0; g < kGroup; ++g) {
    const float other_maximum = ShuffleXor(state.maxima[g], distance),
                other_total = ShuffleXor(state.totals[g], distance);
    const float maximum = fmaxf(state.maxima[g], other_maximum);
    // The lower lane's first, on both.
    const bool lower = (Lane() & distance) == 0;
    const float fade = Fade(state.maxima[g], maximum), other_fade = Fade(other_maximum, maximum);
    const auto merged = [&](float own, float other) {
      return lower ? fmaf(other, other_fade, own * fade) : fmaf(own, fade, other * other_fade);
    };
    state.maxima[g] = maximum;
    state.totals[g] = merged(state.totals[g], other_total);
    BATON_UNROLL
    for (int e = 0; e < kEach; ++e) state.sums[g][e] = merged(state.sums[g][e], ShuffleXor(state.sums[g][e], distance));
  }
}

// A block: one row, one kv head (one pass over kGroup of its query heads), and one split after another of those that
// are its. `lanes` neighbours share a position: each holds kEach elements of its key and value, those beyond head_dim
// are idle.
template <typename T, typename Stored, int kGroup>
__global__ void __launch_bounds__(kThreads, kGroup == 1 ? 2 : 1) DecodeKernel(Arguments a, int lanes) {
  const int64_t row = blockIdx.z;
  if (a.rows.positions[row] < 0) return;
  const Seen seen = SeenBy(a, row);
  constexpr int kSplit = static_cast<int>(kAttentionSplit);
  if (static_cast<int>(blockIdx.x) * kSplit >= seen.end) return;
  const int kv_head = static_cast<int>(blockIdx.y) / a.passes;
  const int first_in_group = static_cast<int>(blockIdx.y) % a.passes * kGroup;
  const int group = a.group - first_in_group < kGroup ? a.group - first_in_group : kGroup;
  const int head_dim = a.kv.head_dim;
  const int lane = Lane(), warp = WarpIndex(), thread = static_cast<int>(threadIdx.x);

  SharedArena shared;
  float* queries = shared.Take<float>(kGroup * head_dim);         // [group][head_dim], scaled
  float* parts = shared.Take<float>(kWarps * kGroup * head_dim);  // [warp][group][head_dim]
  float* part_maxima = shared.Take<float>(kWarps * kGroup);       // [warp][group]
  float* part_totals = shared.Take<float>(kWarps * kGroup);
  const int first_head = kv_head * a.group + first_in_group;
  const T* from = static_cast<const T*>(a.queries) + row * a.q_stride + int64_t{first_head} * head_dim;
  for (int i = thread; i < kGroup * head_dim; i += kThreads) {
    queries[i] = i < group * head_dim ? ToFloat(from[i]) * a.scale : 0.0f;
  }
  BlockBarrier();

  const int element = lane % lanes * kEach;
  const bool holds = element < head_dim;
  const int at_once = kWarp / lanes;  // positions of a warp
  const int slots = 1 << a.block_shift;
  const BlockId* table = a.rows.block_tables + int64_t{a.rows.sequences[row]} * a.rows.table_stride;
  const Stored* key_base = static_cast<const Stored*>(a.kv.keys) + ((kv_head << a.block_shift) * head_dim + element);
  const Stored* value_base =
      static_cast<const Stored*>(a.kv.values) + ((kv_head << a.block_shift) * head_dim + element);

  for (int split = static_cast<int>(blockIdx.x); split * kSplit < seen.end; split += static_cast<int>(gridDim.x)) {
    const int first = split * kSplit, last = first + kSplit < seen.end ? first + kSplit : seen.end;
    if (last <= seen.begin) continue;
    Softmax<kGroup> state;
    BATON_UNROLL
    for (int g = 0; g < kGroup; ++g) {
      state.maxima[g] = kNothing;
      state.totals[g] = 0;
      BATON_UNROLL
      for (int e = 0; e < kEach; ++e) state.sums[g][e] = 0;
    }
    for (int base = first + warp * at_once * kBatch; base < last; base += kWarps * at_once * kBatch) {
      Raw<Stored> keys[kBatch], values[kBatch];
      bool valid[kBatch];
      BATON_UNROLL
      for (int j = 0; j < kBatch; ++j) {
        const int position = base + j * at_once + lane / lanes;
        valid[j] = position >= seen.begin && position < last;
        keys[j] = values[j] = Raw<Stored>{};
        if (!valid[j] || !holds) continue;
        const int64_t offset =
            int64_t{table[position >> a.block_shift]} * a.kv.block_stride + (position & (slots - 1)) * head_dim;
        keys[j] = *reinterpret_cast<const Raw<Stored>*>(key_base + offset);
        values[j] = *reinterpret_cast<const Raw<Stored>*>(value_base + offset);
      }
      float weights[kGroup][kBatch];
      BATON_UNROLL
      for (int j = 0; j < kBatch; ++j) {
        float key[kEach];
        Widen(keys[j], key);
        BATON_UNROLL
        for (int g = 0; g < kGroup; ++g) {
          float score = 0;
          if (holds) {
            BATON_UNROLL
            for (int e = 0; e < kEach; ++e) score = fmaf(queries[g * head_dim + element + e], key[e], score);
          }
          for (int mask = lanes / 2; mask > 0; mask /= 2) score += ShuffleXor(score, mask);
          weights[g][j] = valid[j] ? score : kNothing;
        }
      }
      BATON_UNROLL
      for (int g = 0; g < kGroup; ++g) {
        float maximum = state.maxima[g];
        BATON_UNROLL
        for (int j = 0; j < kBatch; ++j) maximum = fmaxf(maximum, weights[g][j]);
        const float fade = Fade(state.maxima[g], maximum);
        float total = 0;
        BATON_UNROLL
        for (int j = 0; j < kBatch; ++j) {
          weights[g][j] = Fade(weights[g][j], maximum);
          total += weights[g][j];
        }
        state.maxima[g] = maximum;
        state.totals[g] = fmaf(state.totals[g], fade, total);
        BATON_UNROLL
        for (int e = 0; e < kEach; ++e) state.sums[g][e] *= fade;
      }
      BATON_UNROLL
      for (int j = 0; j < kBatch; ++j) {
        float value[kEach];
        Widen(values[j], value);
        BATON_UNROLL
        for (int g = 0; g < kGroup; ++g) {
          BATON_UNROLL
          for (int e = 0; e < kEach; ++e) state.sums[g][e] = fmaf(weights[g][j], value[e], state.sums[g][e]);
        }
      }
    }

    for (int distance = lanes; distance < kWarp; distance *= 2) MergeLanes(state, distance);
    BlockBarrier();  // nobody reads the parts of the split before any more
    BATON_UNROLL
    for (int g = 0; g < kGroup; ++g) {
      if (lane == 0) {
        part_maxima[warp * kGroup + g] = state.maxima[g];
        part_totals[warp * kGroup + g] = state.totals[g];
      }
      if (lane < lanes && holds) StoreFloats(state.sums[g], parts + (warp * kGroup + g) * head_dim + element);
    }
    BlockBarrier();
    for (int i = thread; i < group * head_dim; i += kThreads) {
      const int g = i / head_dim, e = i % head_dim;
      float maximum = kNothing, total = 0, sum = 0;
      BATON_UNROLL
      for (int part = 0; part < kWarps; ++part) maximum = fmaxf(maximum, part_maxima[part * kGroup + g]);
      BATON_UNROLL
      for (int part = 0; part < kWarps; ++part) {
        const float fade = Fade(part_maxima[part * kGroup + g], maximum);
        total = fmaf(part_totals[part * kGroup + g], fade, total);
        sum = fmaf(parts[part * kGroup * head_dim + i], fade, sum);
      }
      const int64_t of_split = (row * a.heads + first_head + g) * a.splits + split;
      a.sums[of_split * head_dim + e] = sum;
      if (e == 0) {
        a.maxima[of_split] = maximum;
        a.totals[of_split] = total;
      }
    }
  }
}

// A block: one head of one row.
template <typename T>
__global__ void MergeKernel(Arguments a, T* out) {
  const int64_t row = blockIdx.y;
  if (a.rows.positions[row] < 0) return;
  const Seen seen = SeenBy(a, row);
  const int begin = seen.begin / static_cast<int>(kAttentionSplit);
  const int end = static_cast<int>(CeilDiv(seen.end, kAttentionSplit));
  const int64_t splits = (row * a.heads + blockIdx.x) * a.splits;
  float maximum = kNothing;
  for (int split = begin; split < end; ++split) maximum = fmaxf(maximum, a.maxima[splits + split]);
  for (int e = static_cast<int>(threadIdx.x); e < a.kv.head_dim; e += kMergeThreads) {
    float total = 0, sum = 0;
    for (int split = begin; split < end; ++split) {
      const float fade = Fade(a.maxima[splits + split], maximum);
      total = fmaf(a.totals[splits + split], fade, total);
      sum = fmaf(a.sums[(splits + split) * a.kv.head_dim + e], fade, sum);
    }
    out[(row * a.heads + blockIdx.x) * a.kv.head_dim + e] = FromFloat<T>(sum / total * a.kv.value_scale);
  }
}

template <typename T, typename Stored, int kGroup>
Error RunGroup(Arguments a, int64_t row_count, void* out, Stream stream) {
  a.passes = static_cast<int>(CeilDiv(a.group, kGroup));
  int lanes = 1;
  while (lanes * kEach < a.kv.head_dim) lanes *= 2;
  const size_t shared =
      (1 + kWarps) * SharedBytes<float>(kGroup * a.kv.head_dim) + 2 * SharedBytes<float>(kWarps * kGroup);
  const auto rows = static_cast<unsigned>(row_count);
  const auto others = static_cast<unsigned>(a.kv.kv_heads * a.passes);
  const auto splits = std::min(static_cast<unsigned>(a.splits), CeilDiv(kBlocks, int64_t{others} * row_count));
  const dim3 grid(splits, others, rows);
  const Error error = Launch(DecodeKernel<T, Stored, kGroup>, {grid, dim3(kThreads), shared, stream}, a, lanes);
  if (error != Error::kNone) return error;
  return Launch(MergeKernel<T>, {dim3(static_cast<unsigned>(a.heads), rows), dim3(kMergeThreads), 0, stream}, a,
                static_cast<T*>(out));
}

template <typename T, typename Stored>
Error Run(const Arguments& a, int64_t row_count, void* out, Stream stream) {
  if (a.group == 1) return RunGroup<T, Stored, 1>(a, row_count, out, stream);
  if (a.group <= 4) return RunGroup<T, Stored, 4>(a, row_count, out, stream);
  if (a.group == 6) return RunGroup<T, Stored, 6>(a, row_count, out, stream);  // of Qwen2.5-1.5B
  if (a.group == 7) return RunGroup<T, Stored, 7>(a, row_count, out, stream);  // of Qwen2.5-0.5B and 7B
  return RunGroup<T, Stored, 8>(a, row_count, out, stream);
}

int64_t Splits(const DecodeAttentionShape& shape) { return CeilDiv(shape.max_length, kAttentionSplit); }

}  // namespace

uint64_t DecodeAttentionWorkspace(const DecodeAttentionShape& shape, int32_t head_dim, int64_t rows) {
  return static_cast<uint64_t>(rows * shape.heads * Splits(shape) * (head_dim + 2)) * sizeof(float);
}

Error DecodeAttention(const DecodeAttentionShape& shape, const PagedKv& kv, const PagedRows& rows, int64_t row_count,
                      const void* queries, void* out, void* workspace, Stream stream) {
  if (row_count == 0) return Error::kNone;
  if (kv.head_dim % kEach != 0 || kv.head_dim > kWarp * kEach || shape.heads % kv.kv_heads != 0 ||
      !std::has_single_bit(static_cast<unsigned>(kv.block_size))) {
    return Error::kInvalidValue;
  }
  const int64_t splits = Splits(shape);
  auto* sums = static_cast<float*>(workspace);
  float* maxima = sums + row_count * shape.heads * splits * kv.head_dim;
  float* totals = maxima + row_count * shape.heads * splits;
  const Arguments arguments{.kv = kv,
                            .rows = rows,
                            .heads = shape.heads,
                            .group = shape.heads / kv.kv_heads,
                            .passes = 1,
                            .window = shape.window,
                            .block_shift = std::countr_zero(static_cast<unsigned>(kv.block_size)),
                            .scale = shape.scale * kv.key_scale * kLog2E,
                            .splits = static_cast<int>(splits),
                            .q_stride = shape.q_stride,
                            .queries = queries,
                            .maxima = maxima,
                            .totals = totals,
                            .sums = sums};
  if (kv.fp8) {
    if (kv.dtype == DType::kF16) return Run<F16, F8>(arguments, row_count, out, stream);
    if (kv.dtype == DType::kBF16) return Run<BF16, F8>(arguments, row_count, out, stream);
    return Error::kInvalidValue;
  }
  BATON_FOR_NUMBER(kv.dtype, T, Run<T, T>(arguments, row_count, out, stream))
}

}  // namespace baton::cuda
