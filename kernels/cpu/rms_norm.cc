#include "kernels/rms_norm.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

// 1 / sqrt(mean of squares + eps). Lanes beyond `width` add nothing.
HWY_INLINE float InverseRms(const float* x, int64_t width, float eps) {
  F32 sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(F32Tag());
  const int64_t whole = width / 16 * 16;
  for (int64_t i = 0; i < whole; i += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const F32 value = LoadF32(x + i + v * kLanes);
      sum[v] = Fma(value, value, sum[v]);
    }
  }
  if (whole < width) {
    HWY_ALIGN float rest[16] = {};
    for (int64_t i = whole; i < width; ++i) rest[i - whole] = x[i];
    for (int v = 0; v < kVectors; ++v) {
      const F32 value = LoadF32(rest + v * kLanes);
      sum[v] = Fma(value, value, sum[v]);
    }
  }
  return 1.0f / std::sqrt(SumHalves(sum) / static_cast<float>(width) + eps);
}

HWY_INLINE void Scale(const float* x, float factor, const float* weight, int64_t width, float* y) {
  const F32Tag d;
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    hn::StoreU(hn::Mul(hn::Mul(LoadF32(x + i), hn::Set(d, factor)), LoadF32(weight + i)), d, y + i);
  }
  for (; i < width; ++i) y[i] = x[i] * factor * weight[i];
}

void RmsNormImpl(const float* x, int64_t x_stride, const float* weight, float eps, int64_t rows, int64_t width,
                 float* y, int64_t y_stride) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * x_stride;
    Scale(in, InverseRms(in, width, eps), weight, width, y + row * y_stride);
  }
}

void AddRmsNormImpl(float* hidden, const float* delta, int64_t delta_stride, const float* weight, float eps,
                    int64_t rows, int64_t width, float* y) {
  const F32Tag d;
  for (int64_t row = 0; row < rows; ++row) {
    float* in = hidden + row * width;
    const float* add = delta + row * delta_stride;
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) hn::StoreU(hn::Add(LoadF32(in + i), LoadF32(add + i)), d, in + i);
    for (; i < width; ++i) in[i] += add[i];
    Scale(in, InverseRms(in, width, eps), weight, width, y + row * width);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {

HWY_EXPORT(RmsNormImpl);
HWY_EXPORT(AddRmsNormImpl);

void RmsNorm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t rows, int64_t width, float* y,
             int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(RmsNormImpl)(x, x_stride, weight, eps, rows, width, y, y_stride);
}

void AddRmsNorm(float* hidden, const float* delta, int64_t delta_stride, const float* weight, float eps, int64_t rows,
                int64_t width, float* y) {
  HWY_DYNAMIC_DISPATCH(AddRmsNormImpl)(hidden, delta, delta_stride, weight, eps, rows, width, y);
}

}  // namespace baton::cpu
#endif  // HWY_ONCE
