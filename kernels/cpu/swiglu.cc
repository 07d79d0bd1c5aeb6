#include "kernels/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/swiglu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

HWY_INLINE F32 SiluTimes(F32 gate, F32 up) {
  const F32 one = hn::Set(F32Tag(), 1.0f);
  return hn::Mul(hn::Div(gate, hn::Add(one, Exp(hn::Neg(gate)))), up);
}

void SwiGluImpl(const float* gate, const float* up, int64_t width, float* y) {
  const F32Tag d;
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) hn::StoreU(SiluTimes(LoadF32(gate + i), LoadF32(up + i)), d, y + i);
  if (i < width) {
    HWY_ALIGN float last_gate[16] = {}, last_up[16] = {}, last_out[16];
    for (int64_t j = i; j < width; ++j) {
      last_gate[j - i] = gate[j];
      last_up[j - i] = up[j];
    }
    hn::Store(SiluTimes(LoadF32(last_gate), LoadF32(last_up)), d, last_out);
    for (int64_t j = i; j < width; ++j) y[j] = last_out[j - i];
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {

HWY_EXPORT(SwiGluImpl);

void SwiGlu(const float* gate, const float* up, int64_t width, float* y) {
  HWY_DYNAMIC_DISPATCH(SwiGluImpl)(gate, up, width, y);
}

}  // namespace baton::cpu
#endif  // HWY_ONCE
