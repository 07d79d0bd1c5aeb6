// Vectors as the kernels use them: groups of 16 f32 lanes, in one, two, four or sixteen registers. Included once per
// SIMD target (no include guard in the usual sense).

#if defined(BATON_KERNELS_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_VECTOR_INL_H_
#undef BATON_KERNELS_CPU_VECTOR_INL_H_
#else
#define BATON_KERNELS_CPU_VECTOR_INL_H_
#endif

#include <cmath>
#include <cstdint>

#include "common/base/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32Tag = hn::CappedTag<float, 16>;
using F32 = hn::Vec<F32Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(F32Tag()));
constexpr int kVectors = 16 / kLanes;  // registers that hold 16 lanes

// 16-bit storage formats, told apart by type.
struct F16Bits {
  uint16_t bits;
};
struct BF16Bits {
  uint16_t bits;
};

// a * b + c, rounded once on every target.
HWY_INLINE F32 Fma(F32 a, F32 b, F32 c) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(F32Tag(), std::fma(hn::GetLane(a), hn::GetLane(b), hn::GetLane(c)));
#else
  static_assert(HWY_NATIVE_FMA, "this target would round twice");
  return hn::MulAdd(a, b, c);
#endif
}

HWY_INLINE F32 LoadF32(const float* from) { return hn::LoadU(F32Tag(), from); }
HWY_INLINE F32 LoadF32(const BF16Bits* from) {
  const hn::Rebind<uint16_t, F32Tag> d16;
  const hn::Rebind<uint32_t, F32Tag> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(F32Tag(), hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
HWY_INLINE F32 LoadF32(const F16Bits* from) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(F32Tag(), F32FromF16(from->bits));
#else
  const hn::Rebind<hwy::float16_t, F32Tag> d16;
  return hn::PromoteTo(F32Tag(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
#endif
}

HWY_INLINE float ScalarF32(float value) { return value; }
HWY_INLINE float ScalarF32(BF16Bits value) { return F32FromBF16(value.bits); }
HWY_INLINE float ScalarF32(F16Bits value) { return F32FromF16(value.bits); }

HWY_INLINE F32 LoadF32(const int8_t* from) {
  const hn::Rebind<int8_t, F32Tag> d8;
  const hn::Rebind<int32_t, F32Tag> d32;
  return hn::ConvertTo(F32Tag(), hn::PromoteTo(d32, hn::LoadU(d8, from)));
}
HWY_INLINE float ScalarF32(int8_t value) { return value; }

// The lanes of one register combined by halves.
template <class D, class Combine>
HWY_INLINE float ReduceRegister([[maybe_unused]] D d, hn::Vec<D> v, [[maybe_unused]] const Combine& combine) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return ReduceRegister(half, combine(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), combine);
  }
#endif
  return hn::GetLane(v);
}

// The 16 lanes of `v` combined by halves: lanes i and i + 8, then i + 4, i + 2, i + 1.
template <typename Combine>
HWY_INLINE float ReduceHalves(F32 (&v)[kVectors], const Combine& combine) {
  for (int width = kVectors / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) v[i] = combine(v[i], v[i + width]);
  }
  return ReduceRegister(F32Tag(), v[0], combine);
}

HWY_INLINE float SumHalves(F32 (&v)[kVectors]) {
  return ReduceHalves(v, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

HWY_INLINE float MaxHalves(F32 (&v)[kVectors]) {
  return ReduceHalves(v, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
}

// e^x within 2 units in the last place; 0 below -87.3, e^88.3 above 88.3. exp(0) is 1 exactly.
HWY_INLINE F32 Exp(F32 x) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  const F32 lowest = hn::Set(d, -87.3f);
  const auto underflow = hn::Lt(x, lowest);
  x = hn::Min(hn::Max(x, lowest), hn::Set(d, 88.3f));
  // x = n ln2 + r, |r| <= ln2 / 2. Adding and taking away 1.5 * 2^23 rounds to the nearest whole number.
  const F32 magic = hn::Set(d, 12582912.0f);
  const F32 n = hn::Sub(Fma(x, hn::Set(d, 1.44269504f), magic), magic);
  F32 r = Fma(n, hn::Set(d, -0.693359375f), x);
  r = Fma(n, hn::Set(d, 2.12194440e-4f), r);
  // Cephes' expf polynomial.
  F32 p = hn::Set(d, 1.9875691500e-4f);
  p = Fma(p, r, hn::Set(d, 1.3981999507e-3f));
  p = Fma(p, r, hn::Set(d, 8.3334519073e-3f));
  p = Fma(p, r, hn::Set(d, 4.1665795894e-2f));
  p = Fma(p, r, hn::Set(d, 1.6666665459e-1f));
  p = Fma(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::Add(Fma(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::IfThenZeroElse(underflow, hn::Mul(p, hn::BitCast(d, exponent)));
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BATON_KERNELS_CPU_VECTOR_INL_H_
