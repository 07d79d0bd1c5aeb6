#include "kernels/peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/peak.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

// Enough independent sums to hide the latency of a multiply-add on two ports.
constexpr int kSums = 10;

double FmaImpl(int64_t rounds, float* sink) {
  const F32Tag d;
  F32 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = hn::Set(d, static_cast<float>(i));
  const F32 a = hn::Set(d, *sink), b = hn::Set(d, *sink * 0.5f);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) sums[i] = Fma(a, b, sums[i]);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  *sink = hn::GetLane(sums[0]);
  return 2.0 * static_cast<double>(rounds) * kSums * kLanes;
}

#if HWY_TARGET == HWY_AVX2

double Int8Impl(int64_t rounds, int32_t* sink) {
  __m256i sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_set1_epi32(i);
  const __m256i codes = _mm256_set1_epi32(*sink & 0x0f0f0f0f), ones = _mm256_set1_epi16(1);
  __m256i values = _mm256_set1_epi8(3);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) {
      // The operand changes with the sums, else the product would be computed once.
      const __m256i pairs = _mm256_maddubs_epi16(codes, _mm256_xor_si256(values, sums[i]));
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs, ones));
    }
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm256_add_epi32(sums[0], sums[i]);
  *sink = _mm256_extract_epi32(sums[0], 0);
  return 2.0 * static_cast<double>(rounds) * kSums * 32;
}

#elif HWY_TARGET == HWY_SCALAR

double Int8Impl(int64_t rounds, int32_t* sink) {
  int32_t sums[kSums] = {};
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) sums[i] += static_cast<int8_t>(*sink + i) * static_cast<int8_t>(sums[i]);
  }
  for (int i = 0; i < kSums; ++i) *sink += sums[i];
  return 2.0 * static_cast<double>(rounds) * kSums;
}

#else

// 16-bit pairs into 32-bit sums, which every target has; where kernels use wider instructions (VNNI) the ceiling is
// higher than this.
double Int8Impl(int64_t rounds, int32_t* sink) {
  const hn::Rebind<int32_t, F32Tag> d32;
  const hn::Repartition<int16_t, decltype(d32)> d16;
  hn::Vec<decltype(d32)> low[kSums], high[kSums];
  for (int i = 0; i < kSums; ++i) low[i] = high[i] = hn::Set(d32, i);
  const auto a = hn::Set(d16, static_cast<int16_t>(*sink & 127)), b = hn::Set(d16, 3);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) {
      low[i] = hn::ReorderWidenMulAccumulate(d32, a, hn::Xor(b, hn::BitCast(d16, low[i])), low[i], high[i]);
    }
  }
  for (int i = 1; i < kSums; ++i) low[0] = hn::Add(low[0], low[i]);
  *sink = hn::GetLane(low[0]);
  return 2.0 * static_cast<double>(rounds) * kSums * 2 * kLanes;
}

#endif

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {

HWY_EXPORT(FmaImpl);
HWY_EXPORT(Int8Impl);

double RunFmaRounds(int64_t rounds, float* sink) { return HWY_DYNAMIC_DISPATCH(FmaImpl)(rounds, sink); }
double RunInt8Rounds(int64_t rounds, int32_t* sink) { return HWY_DYNAMIC_DISPATCH(Int8Impl)(rounds, sink); }

}  // namespace baton::cpu
#endif
