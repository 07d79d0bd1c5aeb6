// The integer register tile: a few rows of 8-bit activations against a few vectors of outputs with 8- or 4-bit codes.
//
// Codes are unsigned and values signed, as the multiply-add instructions want them; the codes' offset is taken away by
// a start value per row and group. No product pair can exceed what it is summed in: with VNNI sums are 32 bits wide
// from the start; without it bytes are multiplied as two halves of 4 bits, so that a pair is at most 2 * 15 * 128 and
// the eight pairs of a group stay below 2^15.

#if defined(BATON_KERNELS_CPU_QUANTIZED_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_QUANTIZED_TILE_INL_H_
#undef BATON_KERNELS_CPU_QUANTIZED_TILE_INL_H_
#else
#define BATON_KERNELS_CPU_QUANTIZED_TILE_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/cpu/vector-inl.h"
#include "kernels/panel_matrix.h"
#include "kernels/quantized_rows.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

using I32Tag = hn::RebindToSigned<F32Tag>;
using I32 = hn::Vec<I32Tag>;

template <DType kFormat>
constexpr bool kIsInt8 = kFormat == DType::kQ8_0;

// Four neighbouring inputs of kLanes outputs; the same four of a row for every output; sums of products over a group.
// Load makes the steps of one cache line of codes: one for int8, two for int4.
#if HWY_TARGET == HWY_AVX3_DL

using Codes = I32;
using Values = I32;

template <DType kFormat>
struct GroupSum {
  I32 sum;
  void Start(int32_t start) { sum = hn::Set(I32Tag(), start); }
  HWY_INLINE void Add(const Codes& codes, const Values& values) {
    // By name: Highway's target string lacks avx512vnni, which the intrinsic asks for.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(codes.raw), "v"(values.raw));
  }
  HWY_INLINE I32 Total(int32_t) const { return sum; }
};

template <DType kFormat>
HWY_INLINE void LoadCodes(const uint8_t* from, Codes* steps) {
  const I32Tag d;
  const I32 line = hn::LoadU(d, reinterpret_cast<const int32_t*>(from));
  if constexpr (kIsInt8<kFormat>) {
    steps[0] = line;
  } else {
    const I32 mask = hn::Set(d, 0x0f0f0f0f);
    steps[0] = hn::And(line, mask);
    steps[1] = hn::And(hn::ShiftRight<4>(line), mask);
  }
}

HWY_INLINE Values LoadValues(const int8_t* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof(word));
  return hn::Set(I32Tag(), word);
}

#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

using I16Tag = hn::Repartition<int16_t, I32Tag>;
using I16 = hn::Vec<I16Tag>;
struct Codes {
  I32 low, high;  // high is used by int8 only
};
using Values = I32;

#if HWY_TARGET == HWY_AVX3
HWY_INLINE I16 MulPairs(I32 codes, I32 values) { return I16{_mm512_maddubs_epi16(codes.raw, values.raw)}; }
HWY_INLINE I32 AddPairs(I16 v) { return I32{_mm512_madd_epi16(v.raw, _mm512_set1_epi16(1))}; }
#else
HWY_INLINE I16 MulPairs(I32 codes, I32 values) { return I16{_mm256_maddubs_epi16(codes.raw, values.raw)}; }
HWY_INLINE I32 AddPairs(I16 v) { return I32{_mm256_madd_epi16(v.raw, _mm256_set1_epi16(1))}; }
#endif

template <DType kFormat>
struct GroupSum {
  I16 low, high;
  HWY_INLINE void Start(int32_t) {
    low = hn::Zero(I16Tag());
    if constexpr (kIsInt8<kFormat>) high = hn::Zero(I16Tag());
  }
  HWY_INLINE void Add(const Codes& codes, const Values& values) {
    low = hn::Add(low, MulPairs(codes.low, values));
    if constexpr (kIsInt8<kFormat>) high = hn::Add(high, MulPairs(codes.high, values));
  }
  HWY_INLINE I32 Total(int32_t start) const {
    I32 sum = hn::Add(AddPairs(low), hn::Set(I32Tag(), start));
    if constexpr (kIsInt8<kFormat>) sum = hn::Add(sum, hn::ShiftLeft<4>(AddPairs(high)));
    return sum;
  }
};

template <DType kFormat>
HWY_INLINE void LoadCodes(const uint8_t* from, Codes* steps) {
  const I32Tag d;
  const I32 mask = hn::Set(d, 0x0f0f0f0f);
  const I32 line = hn::LoadU(d, reinterpret_cast<const int32_t*>(from));
  const I32 low = hn::And(line, mask), high = hn::And(hn::ShiftRight<4>(line), mask);
  if constexpr (kIsInt8<kFormat>) {
    steps[0] = {low, high};
  } else {
    steps[0].low = low;
    steps[1].low = high;
  }
}

HWY_INLINE Values LoadValues(const int8_t* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof(word));
  return hn::Set(I32Tag(), word);
}

#else  // 32-bit lanes everywhere

// Constructors by hand: the one that GCC makes of its own is compiled for the base target, where NEON's vectors with
// constructors of theirs cannot be inlined.
struct Codes {
  HWY_INLINE Codes() {}
  I32 input[4];
};
using Values = const int8_t*;

template <DType kFormat>
struct GroupSum {
  HWY_INLINE GroupSum() {}
  I32 sum;
  HWY_INLINE void Start(int32_t start) { sum = hn::Set(I32Tag(), start); }
  HWY_INLINE void Add(const Codes& codes, const Values& values) {
    for (int i = 0; i < 4; ++i) {
      sum = hn::Add(sum, hn::Mul(codes.input[i], hn::Set(I32Tag(), int32_t{values[i]})));
    }
  }
  HWY_INLINE I32 Total(int32_t) const { return sum; }
};

template <DType kFormat>
HWY_INLINE void LoadCodes(const uint8_t* from, Codes* steps) {
  const I32Tag d;
  const I32 line = hn::LoadU(d, reinterpret_cast<const int32_t*>(from));
  const I32 mask = hn::Set(d, kIsInt8<kFormat> ? 255 : 15);
  const auto split = [&](I32 v, I32* inputs) HWY_ATTR {
    inputs[0] = hn::And(v, mask);
    inputs[1] = hn::And(hn::ShiftRight<8>(v), mask);
    inputs[2] = hn::And(hn::ShiftRight<16>(v), mask);
    inputs[3] = hn::And(hn::ShiftRight<24>(v), mask);
  };
  split(line, steps[0].input);
  if constexpr (!kIsInt8<kFormat>) split(hn::ShiftRight<4>(line), steps[1].input);
}

HWY_INLINE Values LoadValues(const int8_t* from) { return from; }

#endif

// Rows of a tile whose sums fill the registers, and vectors of outputs that go with a number of rows: with few rows
// more of them, so that eight or more independent sums hide the latency of an addition.
constexpr int kQuantizedTileRows = kLanes == 16 ? 6 : 4;
constexpr int QuantizedTileColumns(int rows) {
  if (kLanes == 16) return rows <= 2 ? 4 : 2;
  return rows == 1 ? 4 : rows == 2 ? 2 : 1;
}

struct QuantizedTileCall {
  const uint8_t* panel;  // of the tile's first output
  int64_t panel_bytes;
  int64_t scales_offset;
  int64_t minimums_offset;
  const int8_t* values;  // of the tile's first row
  int64_t value_stride;
  const ActivationGroup* groups;
  int64_t group_stride;
  int64_t first_group, end_group;
  float* y;  // row stride y_stride; sums so far unless first_group is 0
  int64_t y_stride;
  const float* bias;  // added after the last group; null with others
  // Codes that are fetched from memory meanwhile: of every group's cache lines [first, end), so far ahead.
  int prefetch_first, prefetch_end;
  int64_t prefetch_bytes;
  bool prefetch_near;  // into the first-level cache
};

// kRows rows against kColumns vectors, the first of which is vector `first_vector` of the panel.
template <DType kFormat, int kRows, int kColumns>
HWY_NOINLINE void QuantizedTile(const QuantizedTileCall& call, int first_vector) {
  const F32Tag d;
  constexpr int64_t kLoads = kIsInt8<kFormat> ? 8 : 4;  // cache lines of codes in a group
  constexpr int kStepsOfLoad = kIsInt8<kFormat> ? 1 : 2;
  const uint8_t* codes_at[kColumns];
  F32 sum[kRows][kColumns];
#pragma GCC unroll 32
  for (int c = 0; c < kColumns; ++c) {
    const int vector = first_vector + c;
    codes_at[c] = call.panel + vector / kVectors * call.panel_bytes + vector % kVectors * kLanes * 4;
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
      sum[r][c] = call.first_group == 0 ? hn::Zero(d) : LoadF32(call.y + r * call.y_stride + c * kLanes);
    }
  }
  for (int64_t g = call.first_group; g < call.end_group; ++g) {
    GroupSum<kFormat> products[kRows][kColumns];
    const ActivationGroup* group = call.groups + g;
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
      const ActivationGroup& row = group[r * call.group_stride];
#pragma GCC unroll 32
      for (int c = 0; c < kColumns; ++c) {
        products[r][c].Start(kIsInt8<kFormat> ? row.start_int8 : kFormat == DType::kQ4_0 ? row.start_int4 : 0);
      }
    }
    for (int line = call.prefetch_first; line < call.prefetch_end; ++line) {
      const int64_t offset = (g * kLoads + line) * 64 + call.prefetch_bytes;
#pragma GCC unroll 32
      for (int c = 0; c < kColumns; c += kVectors) {
        if (call.prefetch_near) {
          hwy::Prefetch(codes_at[c] + offset);
        } else {
          __builtin_prefetch(codes_at[c] + offset, 0, 2);
        }
      }
    }
    const int8_t* values = call.values + g * kGroupInputs;
#pragma GCC unroll 8
    for (int64_t load = 0; load < kLoads; ++load) {
      const int64_t offset = (g * kLoads + load) * 64;
      Codes codes[kColumns][kStepsOfLoad];
#pragma GCC unroll 32
      for (int c = 0; c < kColumns; ++c) LoadCodes<kFormat>(codes_at[c] + offset, codes[c]);
#pragma GCC unroll 32
      for (int s = 0; s < kStepsOfLoad; ++s) {
#pragma GCC unroll 32
        for (int r = 0; r < kRows; ++r) {
          const Values four = LoadValues(values + r * call.value_stride + (load * kStepsOfLoad + s) * 4);
#pragma GCC unroll 32
          for (int c = 0; c < kColumns; ++c) products[r][c].Add(codes[c][s], four);
        }
      }
    }
#pragma GCC unroll 32
    for (int c = 0; c < kColumns; ++c) {
      const int vector = first_vector + c;
      const uint8_t* panel = call.panel + vector / kVectors * call.panel_bytes;
      const int64_t lane = g * kPanelWidth + vector % kVectors * kLanes;
      const F32 scales = LoadF32(reinterpret_cast<const F16Bits*>(panel + call.scales_offset) + lane);
#pragma GCC unroll 32
      for (int r = 0; r < kRows; ++r) {
        const ActivationGroup& row = group[r * call.group_stride];
        const I32 total = products[r][c].Total(kIsInt8<kFormat>          ? row.start_int8
                                               : kFormat == DType::kQ4_0 ? row.start_int4
                                                                         : 0);
        sum[r][c] = Fma(hn::ConvertTo(d, total), hn::Mul(scales, hn::Set(d, row.scale)), sum[r][c]);
      }
      if constexpr (kFormat == DType::kQ4_1) {
        const F32 minimums = LoadF32(reinterpret_cast<const F16Bits*>(panel + call.minimums_offset) + lane);
#pragma GCC unroll 32
        for (int r = 0; r < kRows; ++r) {
          sum[r][c] = Fma(minimums, hn::Set(d, group[r * call.group_stride].scaled_sum), sum[r][c]);
        }
      }
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 32
    for (int c = 0; c < kColumns; ++c) {
      F32 out = sum[r][c];
      if (call.bias != nullptr) out = hn::Add(out, LoadF32(call.bias + c * kLanes));
      hn::StoreU(out, d, call.y + r * call.y_stride + c * kLanes);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BATON_KERNELS_CPU_QUANTIZED_TILE_INL_H_
