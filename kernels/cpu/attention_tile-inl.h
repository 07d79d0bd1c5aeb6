// The two register tiles of attention: queries against keys, weights against values. Numbers are read in 16 positions
// at a time, each from its own place, so the pool's blocks and a widened copy are met alike.

#if defined(BATON_KERNELS_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_ATTENTION_TILE_INL_H_
#undef BATON_KERNELS_CPU_ATTENTION_TILE_INL_H_
#else
#define BATON_KERNELS_CPU_ATTENTION_TILE_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/cache_control.h"
#include "kernels/attention.h"
#include "kernels/cpu/tile-inl.h"

#ifndef BATON_KERNELS_CPU_ATTENTION_TILE_ONCE_
#define BATON_KERNELS_CPU_ATTENTION_TILE_ONCE_
namespace baton::cpu {

constexpr int64_t kAttentionRows = kMaxHeadGroup + 16;  // a register tile may read past the last row
constexpr int64_t kQueryStride = kMaxHeadDim + 16;      // not a power of two: rows in different cache sets
constexpr int64_t kScoreStride = kAttentionRange + 16;

}  // namespace baton::cpu
#endif  // BATON_KERNELS_CPU_ATTENTION_TILE_ONCE_

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

// Panels of 16 columns that a tile of `rows` rows takes: eight sums or more hide an addition's latency.
constexpr int TilePanels(int rows) {
  if (kLanes == 16) return rows <= 4 ? 4 : 2;
  if (kLanes == 8) return rows == 1 ? 4 : rows == 2 ? 2 : 1;
  return rows == 1 && kLanes == 4 ? 2 : 1;
}

// scores[r][o] = (queries[r] . key o) * scale, o in [0, 16 * kPanels), r < rows <= kRows; with key_scales, *
// key_scale[o] before it. keys: panels of 16 positions, next element of head_dim key_stride further. prefetch: pieces
// of the same size to be fetched meanwhile, or null.
template <typename T, int kRows, int kPanels>
HWY_NOINLINE void ScoreTile(const float* HWY_RESTRICT queries, const T* const* keys, int64_t key_stride,
                            int64_t head_dim, float scale, const float* key_scales, const T* const* prefetch, int rows,
                            float* HWY_RESTRICT scores) {
  const F32Tag d;
  constexpr int kColumns = kPanels * kVectors;
  F32 sum[kRows][kColumns];
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 32
    for (int v = 0; v < kColumns; ++v) sum[r][v] = hn::Zero(d);
  }
  const T* panel[kPanels];
#pragma GCC unroll 32
  for (int p = 0; p < kPanels; ++p) panel[p] = keys[p];
  for (int64_t e = 0; e < head_dim; ++e) {
    if (prefetch != nullptr) {
#pragma GCC unroll 32
      for (int p = 0; p < kPanels; ++p) hwy::Prefetch(prefetch[p] + e * key_stride);
    }
    F32 key[kColumns];
#pragma GCC unroll 32
    for (int v = 0; v < kColumns; ++v) {
      key[v] = LoadF32(panel[v / kVectors] + e * key_stride + v % kVectors * kLanes);
    }
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
      const F32 q = hn::Set(d, queries[r * kQueryStride + e]);
#pragma GCC unroll 32
      for (int v = 0; v < kColumns; ++v) sum[r][v] = Fma(q, key[v], sum[r][v]);
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r) {
    if (r >= rows) continue;
#pragma GCC unroll 32
    for (int v = 0; v < kColumns; ++v) {
      F32 score = sum[r][v];
      if (key_scales != nullptr) score = hn::Mul(score, LoadF32(key_scales + v * kLanes));
      hn::StoreU(hn::Mul(score, hn::Set(d, scale)), d, scores + r * kScoreStride + v * kLanes);
    }
  }
}

// Sums of weights[r][p] * value p over p in [begin, end), elements [element, element + 16 * kPanels), r < rows <=
// kRows. values: of 16 positions each, next position value_stride further. They continue `begun` (row stride `stride`)
// where `continues`; they end in `begun`, or, where `merged` is not null, in merged = sum * new_share + merged *
// old_share.
template <typename T, int kRows, int kPanels>
HWY_NOINLINE void ValueTile(const float* HWY_RESTRICT weights, const T* const* values, int64_t value_stride,
                            int64_t element, int64_t begin, int64_t end, const T* const* prefetch, int rows,
                            int64_t stride, float* HWY_RESTRICT begun, bool continues, float* HWY_RESTRICT merged,
                            const float* old_shares, const float* new_shares) {
  const F32Tag d;
  constexpr int kColumns = kPanels * kVectors;
  F32 sum[kRows][kColumns];
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 32
    for (int v = 0; v < kColumns; ++v) {
      sum[r][v] = continues && r < rows ? hn::LoadU(d, begun + r * stride + v * kLanes) : hn::Zero(d);
    }
  }
  for (int64_t p = begin; p < end;) {
    const int64_t slot = p % 16;
    const T* row = values[p / 16] + slot * value_stride + element;
    const T* fetch = prefetch == nullptr ? nullptr : prefetch[p / 16] + slot * value_stride + element;
    for (const int64_t stop = std::min(end, p - slot + 16); p < stop; ++p, row += value_stride) {
      if (fetch != nullptr) {
        hwy::Prefetch(fetch);
        if constexpr (kPanels * 16 * sizeof(T) > 64) hwy::Prefetch(fetch + 64 / sizeof(T));
        fetch += value_stride;
      }
      F32 value[kColumns];
#pragma GCC unroll 32
      for (int v = 0; v < kColumns; ++v) value[v] = LoadF32(row + v * kLanes);
#pragma GCC unroll 32
      for (int r = 0; r < kRows; ++r) {
        const F32 weight = hn::Set(d, weights[r * kScoreStride + p]);
#pragma GCC unroll 32
        for (int v = 0; v < kColumns; ++v) sum[r][v] = Fma(weight, value[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r) {
    if (r >= rows) continue;
#pragma GCC unroll 32
    for (int v = 0; v < kColumns; ++v) {
      if (merged == nullptr) {
        hn::StoreU(sum[r][v], d, begun + r * stride + v * kLanes);
      } else {
        float* to = merged + r * stride + v * kLanes;
        const F32 old = hn::Mul(hn::LoadU(d, to), hn::Set(d, old_shares[r]));
        hn::StoreU(Fma(sum[r][v], hn::Set(d, new_shares[r]), old), d, to);
      }
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BATON_KERNELS_CPU_ATTENTION_TILE_INL_H_
