#include "kernels/rope.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

void RopeImpl(const float* cosine, const float* sine, int64_t heads, int64_t head_dim, float* x) {
  const F32Tag d;
  const int64_t half = head_dim / 2;
  for (int64_t head = 0; head < heads; ++head) {
    float* low = x + head * head_dim;
    float* high = low + half;
    int64_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const F32 a = LoadF32(low + i), b = LoadF32(high + i), c = LoadF32(cosine + i), s = LoadF32(sine + i);
      hn::StoreU(Fma(hn::Neg(b), s, hn::Mul(a, c)), d, low + i);
      hn::StoreU(Fma(a, s, hn::Mul(b, c)), d, high + i);
    }
    for (; i < half; ++i) {
      const float a = low[i], b = high[i];
      low[i] = std::fma(-b, sine[i], a * cosine[i]);
      high[i] = std::fma(a, sine[i], b * cosine[i]);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {

HWY_EXPORT(RopeImpl);

void Rope(const float* cosine, const float* sine, int64_t heads, int64_t head_dim, float* x) {
  HWY_DYNAMIC_DISPATCH(RopeImpl)(cosine, sine, heads, head_dim, x);
}

void RopeAngles(int64_t position, const float* inverse_frequencies, int64_t pairs, float attention_scale, float* cosine,
                float* sine) {
  // pi / 2 in two parts; the first has 33 bits, so its product with a quadrant below 2^20 is exact.
  constexpr double kHalfPiHigh = 1.57079632673412561417e+00;
  constexpr double kHalfPiLow = 6.07710050650619224932e-11;
  constexpr double kTwoOverPi = 0.636619772367581343076;
  for (int64_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<float>(position) * inverse_frequencies[i];
    const double quadrant = std::floor(angle * kTwoOverPi + 0.5);
    const double r = (angle - quadrant * kHalfPiHigh) - quadrant * kHalfPiLow;  // |r| <= pi / 4
    const double r2 = r * r;
    // Taylor series; the first term left out is below 1e-17.
    double s = 0, c = 0;
    for (int n = 17; n >= 3; n -= 2) s = (s + 1) * (-r2 / (n * (n - 1)));
    for (int n = 16; n >= 2; n -= 2) c = (c + 1) * (-r2 / (n * (n - 1)));
    s = (s + 1) * r;
    c = c + 1;
    const auto turn = static_cast<int64_t>(quadrant) & 3;
    const double cos_angle = turn == 0 ? c : turn == 1 ? -s : turn == 2 ? -c : s;
    const double sin_angle = turn == 0 ? s : turn == 1 ? c : turn == 2 ? -s : -c;
    cosine[i] = static_cast<float>(cos_angle) * attention_scale;
    sine[i] = static_cast<float>(sin_angle) * attention_scale;
  }
}

}  // namespace baton::cpu
#endif  // HWY_ONCE
