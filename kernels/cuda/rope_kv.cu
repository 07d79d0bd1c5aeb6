#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"
#include "kernels/cuda/rope_kv.h"

namespace baton::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxPairs = 4;  // pairs of elements a lane holds: head_dim 256

template <typename T>
__device__ __forceinline__ void StorePairs(const float (&low)[kMaxPairs], const float (&high)[kMaxPairs], int half,
                                           float factor, T* to) {
  BATON_UNROLL
  for (int i = 0; i < kMaxPairs; ++i) {
    const int pair = Lane() + i * kWarp;
    if (pair >= half) continue;
    to[pair] = FromFloat<T>(low[i] * factor);
    to[pair + half] = FromFloat<T>(high[i] * factor);
  }
}

// A warp is one head of one row; lane l holds the pairs l, l + 32, ...
template <typename T, typename Stored>
__global__ void RopeKvKernel(RopeKvWeights weights, PagedKv kv, PagedRows rows, int heads, T* qkv) {
  const int64_t row = blockIdx.x;
  const int all_heads = heads + 2 * kv.kv_heads;
  const int head = static_cast<int>(blockIdx.y) * kWarps + WarpIndex();
  const int position = rows.positions[row];
  if (head >= all_heads || position < 0) return;
  const int lane = Lane();
  const int half = kv.head_dim / 2;
  T* data = qkv + (row * all_heads + head) * kv.head_dim;
  float low[kMaxPairs], high[kMaxPairs];
  BATON_UNROLL
  for (int i = 0; i < kMaxPairs; ++i) {
    const int pair = lane + i * kWarp;
    low[i] = high[i] = 0;
    if (pair >= half) continue;
    low[i] = ToFloat(data[pair]);
    high[i] = ToFloat(data[pair + half]);
    if (weights.bias != nullptr) {
      low[i] += weights.bias[head * kv.head_dim + pair];
      high[i] += weights.bias[head * kv.head_dim + pair + half];
    }
  }
  const bool is_query = head < heads, is_value = head >= heads + kv.kv_heads;
  if (!is_value) {
    const float* norm = is_query ? weights.q_norm : weights.k_norm;
    if (norm != nullptr) {
      float sum = 0;
      BATON_UNROLL
      for (int i = 0; i < kMaxPairs; ++i) sum = fmaf(low[i], low[i], fmaf(high[i], high[i], sum));
      const float factor = 1.0f / sqrtf(WarpSum(sum) / static_cast<float>(kv.head_dim) + weights.eps);
      BATON_UNROLL
      for (int i = 0; i < kMaxPairs; ++i) {
        const int pair = lane + i * kWarp;
        if (pair >= half) continue;
        low[i] = low[i] * factor * norm[pair];
        high[i] = high[i] * factor * norm[pair + half];
      }
    }
    BATON_UNROLL
    for (int i = 0; i < kMaxPairs; ++i) {
      const int pair = lane + i * kWarp;
      if (pair >= half) continue;
      const float cosine = weights.cosine[int64_t{position} * half + pair];
      const float sine = weights.sine[int64_t{position} * half + pair];
      const float a = low[i], b = high[i];
      low[i] = fmaf(-b, sine, a * cosine);
      high[i] = fmaf(a, sine, b * cosine);
    }
  }
  if (is_query) return StorePairs(low, high, half, 1.0f, data);
  const int kv_head = (head - heads) % kv.kv_heads;
  const int64_t block = rows.block_tables[int64_t{rows.sequences[row]} * rows.table_stride + position / kv.block_size];
  StorePairs(low, high, half, 1.0f / (is_value ? kv.value_scale : kv.key_scale),
             static_cast<Stored*>(is_value ? kv.values : kv.keys) + block * kv.block_stride +
                 (int64_t{kv_head} * kv.block_size + position % kv.block_size) * kv.head_dim);
}

template <typename T, typename Stored>
Error Run(const RopeKvWeights& weights, const PagedKv& kv, const PagedRows& rows, int64_t row_count, int heads,
          void* qkv, Stream stream) {
  const dim3 grid(static_cast<unsigned>(row_count), CeilDiv(heads + 2 * kv.kv_heads, kWarps));
  return Launch(RopeKvKernel<T, Stored>, {grid, dim3(kWarps * kWarp), 0, stream}, weights, kv, rows, heads,
                static_cast<T*>(qkv));
}

}  // namespace

Error RopeAndStoreKv(const RopeKvWeights& weights, const PagedKv& kv, const PagedRows& rows, int64_t row_count,
                     int32_t heads, void* qkv, Stream stream) {
  if (kv.head_dim % 2 != 0 || kv.head_dim > 2 * kMaxPairs * kWarp) return Error::kInvalidValue;
  if (kv.fp8) {
    if (kv.dtype == DType::kF16) return Run<F16, F8>(weights, kv, rows, row_count, heads, qkv, stream);
    if (kv.dtype == DType::kBF16) return Run<BF16, F8>(weights, kv, rows, row_count, heads, qkv, stream);
    return Error::kInvalidValue;
  }
  BATON_FOR_NUMBER(kv.dtype, T, Run<T, T>(weights, kv, rows, row_count, heads, qkv, stream))
}

}  // namespace baton::cuda
