// The register tile: a few rows against a few panels, sums in registers for one block of steps. Everything that
// multiplies matrices is made of it, so one row and many rows add in the same order.

#if defined(BATON_KERNELS_CPU_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_TILE_INL_H_
#undef BATON_KERNELS_CPU_TILE_INL_H_
#else
#define BATON_KERNELS_CPU_TILE_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/cache_control.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

// Rows and panels whose sums fill the registers when weights are f32 in cache: 32 registers of 16 lanes on AVX-512, of
// 4 lanes on NEON; 16 of 8 lanes on AVX2.
constexpr int kTileRows = kLanes == 16 ? 12 : 6;
constexpr int kTilePanels = kLanes == 16 ? 2 : 1;

// Height of the tiles that `rows` rows are cut into; the last one may be lower. Rather two even tiles than a full one
// and a few rows for which the sums are too few to hide the latency of an addition.
constexpr int TileHeight(int64_t rows) { return kTileRows == 12 && rows > 12 && rows <= 16 ? 8 : kTileRows; }

// Panels to stream at a time for a tile of few rows: eight or more independent sums hide the latency of an addition.
constexpr int StreamPanels(int rows) {
  if (kLanes == 16) return rows <= 4 ? 4 : 2;
  return rows == 1 ? 4 : rows == 2 ? 2 : 1;
}

// How far ahead weights are fetched when they come from memory: 2 KiB in every panel's stream. The hardware alone does
// not follow so many streams across pages.
constexpr int kPrefetchSteps = 64;

// Weights that are wanted next: during a tile a cache line of each of its panels, `panel_bytes` apart, comes into the
// second-level cache every `interval` steps.
struct Fetch {
  const std::byte* from = nullptr;  // null: nothing
  int64_t panel_bytes = 0;
  int64_t interval = 0;
};

// Where a tile leaves the weights that it widened, for the tiles of other rows; panels `panel_stride` floats apart.
struct Widened {
  float* to;
  int64_t panel_stride;
};

// c[r][o] (+)= sum over steps of a(r, k) * b[o / 16][k][o % 16], o in [0, 16 * kPanels), r < rows <= kRows.
// a(r, k) = a[r + k * kRows], readable for all kRows. b: panels `panel_stride` elements apart. c: row stride c_stride;
// overwritten when `first`, else added to. Then bias[o] is added where bias is not null.
// Not inlined: the call is nothing beside its work, and every copy takes the compiler seconds.
template <typename T, int kRows, int kPanels, bool kKeep = false>
HWY_NOINLINE void Tile(const float* HWY_RESTRICT a, const T* HWY_RESTRICT b, int64_t panel_stride, int64_t steps,
                       float* HWY_RESTRICT c, int64_t c_stride, int rows, bool first, const float* bias,
                       const Fetch& fetch = {}, [[maybe_unused]] const Widened& widened = {}) {
  constexpr bool kFetches = kKeep || std::is_same_v<T, float>;
  const F32Tag d;
  constexpr int kColumns = kPanels * kVectors;
  F32 sum[kRows][kColumns];
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 32
    for (int v = 0; v < kColumns; ++v) sum[r][v] = hn::Zero(d);
  }
  [[maybe_unused]] const std::byte* line = fetch.from;
  [[maybe_unused]] int64_t next_fetch = line == nullptr ? steps : 0;
  for (int64_t k = 0; k < steps; ++k) {
    if constexpr (!std::is_same_v<T, float>) {
      if (k % 2 == 0) {  // a cache line holds two steps of 16 bits
#pragma GCC unroll 32
        for (int p = 0; p < kPanels; ++p) hwy::Prefetch(b + p * panel_stride + (k + kPrefetchSteps) * 16);
      }
    }
    if constexpr (kFetches) {
      if (k == next_fetch) {
        next_fetch += fetch.interval;
#pragma GCC unroll 32
        for (int p = 0; p < kPanels; ++p) __builtin_prefetch(line + p * fetch.panel_bytes, 0, 2);
        line += 64;
      }
    }
    F32 weights[kColumns];
#pragma GCC unroll 32
    for (int v = 0; v < kColumns; ++v) {
      weights[v] = LoadF32(b + (v / kVectors) * panel_stride + k * 16 + (v % kVectors) * kLanes);
      if constexpr (kKeep) {
        hn::Store(weights[v], d, widened.to + (v / kVectors) * widened.panel_stride + k * 16 + (v % kVectors) * kLanes);
      }
    }
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
      const F32 x = hn::Set(d, a[r + k * kRows]);
#pragma GCC unroll 32
      for (int v = 0; v < kColumns; ++v) sum[r][v] = Fma(x, weights[v], sum[r][v]);
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r) {
    if (r >= rows) continue;
#pragma GCC unroll 32
    for (int v = 0; v < kColumns; ++v) {
      float* out = c + r * c_stride + v * kLanes;
      F32 total = first ? sum[r][v] : hn::Add(hn::LoadU(d, out), sum[r][v]);
      if (bias != nullptr) total = hn::Add(total, hn::LoadU(d, bias + v * kLanes));
      hn::StoreU(total, d, out);
    }
  }
}

// Calls body(std::integral_constant<int, R>) for the smallest tile height R that takes `rows` (1 to kTileRows).
template <typename Body>
HWY_INLINE void WithTileRows(int64_t rows, const Body& body) {
  if (rows <= 1) return body(std::integral_constant<int, 1>());
  if (rows <= 2) return body(std::integral_constant<int, 2>());
  if (rows <= 4) return body(std::integral_constant<int, 4>());
  if constexpr (kTileRows > 8) {
    if (rows <= 8) return body(std::integral_constant<int, 8>());
  }
  return body(std::integral_constant<int, kTileRows>());
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BATON_KERNELS_CPU_TILE_INL_H_
