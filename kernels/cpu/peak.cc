#include "kernels/peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/peak.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "hwy/cache_control.h"
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

#if HWY_TARGET == HWY_AVX3_DL

double Int8Impl(int64_t rounds, int32_t* sink) {
  const hn::RebindToSigned<F32Tag> d;
  hn::Vec<decltype(d)> sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = hn::Set(d, i);
  const auto codes = hn::Set(d, *sink & 0x0f0f0f0f), values = hn::Set(d, 0x03030303);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) {
      // By name: Highway's target string lacks avx512vnni, which the intrinsic asks for. On a copy, which stays in a
      // register; an element of the array would go through memory.
      auto sum = sums[i].raw;
      asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes.raw), "v"(values.raw));
      sums[i].raw = sum;
    }
  }
  for (int i = 1; i < kSums; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  *sink = hn::GetLane(sums[0]);
  return 2.0 * static_cast<double>(rounds) * kSums * 4 * kLanes;
}

#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

#if HWY_TARGET == HWY_AVX3
HWY_INLINE __m512i AddProducts(__m512i sum, __m512i codes, __m512i values) {
  // The operand changes with the sum, else the product would be computed once.
  const __m512i pairs = _mm512_maddubs_epi16(codes, _mm512_xor_si512(values, sum));
  return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#else
HWY_INLINE __m256i AddProducts(__m256i sum, __m256i codes, __m256i values) {
  const __m256i pairs = _mm256_maddubs_epi16(codes, _mm256_xor_si256(values, sum));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

double Int8Impl(int64_t rounds, int32_t* sink) {
  const hn::RebindToSigned<F32Tag> d;
  hn::Vec<decltype(d)> sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = hn::Set(d, i);
  const auto codes = hn::Set(d, *sink & 0x0f0f0f0f), values = hn::Set(d, 0x03030303);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) sums[i].raw = AddProducts(sums[i].raw, codes.raw, values.raw);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  *sink = hn::GetLane(sums[0]);
  return 2.0 * static_cast<double>(rounds) * kSums * 4 * kLanes;
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

// 16-bit pairs into 32-bit sums, which every target has.
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

int32_t ReadMemoryImpl(const void* data, uint64_t bytes) {
  constexpr int kStreams = 4;
  constexpr uint64_t kLine = 64, kAhead = 4096;
  const hn::RebindToSigned<F32Tag> d;
  const uint64_t stream = bytes / (kStreams * kLine) * kLine;
  const auto* from = static_cast<const uint8_t*>(data);
  hn::Vec<decltype(d)> sums[kStreams];
  for (int s = 0; s < kStreams; ++s) sums[s] = hn::Zero(d);
  for (uint64_t at = 0; at < stream; at += kLine) {
    for (int s = 0; s < kStreams; ++s) {
      const uint8_t* line = from + s * stream + at;
      hwy::Prefetch(line + kAhead);
      for (int v = 0; v < kVectors; ++v) {
        sums[s] = hn::Add(sums[s], hn::LoadU(d, reinterpret_cast<const int32_t*>(line) + v * kLanes));
      }
    }
  }
  for (int s = 1; s < kStreams; ++s) sums[0] = hn::Add(sums[0], sums[s]);
  return hn::GetLane(sums[0]);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {

HWY_EXPORT(FmaImpl);
HWY_EXPORT(Int8Impl);
HWY_EXPORT(ReadMemoryImpl);

double RunFmaRounds(int64_t rounds, float* sink) { return HWY_DYNAMIC_DISPATCH(FmaImpl)(rounds, sink); }
double RunInt8Rounds(int64_t rounds, int32_t* sink) { return HWY_DYNAMIC_DISPATCH(Int8Impl)(rounds, sink); }
int32_t ReadMemory(const void* data, uint64_t bytes) { return HWY_DYNAMIC_DISPATCH(ReadMemoryImpl)(data, bytes); }

}  // namespace baton::cpu
#endif
