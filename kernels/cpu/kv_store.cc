#include "kernels/kv_store.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv_store.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

// One head's numbers in the pool's format; returns the scale of int8.
HWY_INLINE void Round(const float* in, int64_t count, uint16_t (*to)(float), uint16_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = to(in[i]);
}

// Round to nearest even in whole vectors; NaN and the rest go one by one.
HWY_INLINE void RoundBF16(const float* in, int64_t count, uint16_t* out) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  const hn::Rebind<uint16_t, F32Tag> d16;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const F32 value = LoadF32(in + i);
    if (!hn::AllTrue(d, hn::Eq(value, value))) {
      Round(in + i, kLanes, BF16FromF32, out + i);
      continue;
    }
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd));
    hn::StoreU(hn::TruncateTo(d16, rounded), d16, out + i);
  }
  Round(in + i, count - i, BF16FromF32, out + i);
}

HWY_INLINE float RoundI8(const float* in, int64_t count, int8_t* out) {
  float largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(in[i]);
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    largest = magnitude > largest ? magnitude : largest;
  }
  if (!finite || largest == 0) {
    std::fill_n(out, count, int8_t{0});
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = largest / 127;
  const float inverse = 127 / largest;
  for (int64_t i = 0; i < count; ++i) {
    // Adding 1.5 * 2^23 and taking it away rounds to the nearest whole number. A tiny `largest` has no finite inverse.
    const float rounded = (in[i] * inverse + 12582912.0f) - 12582912.0f;
    out[i] = static_cast<int8_t>(rounded >= 127 ? 127 : rounded <= -127 ? -127 : rounded == rounded ? rounded : 0.0f);
  }
  return scale;
}

// Element e goes to out[e * stride].
template <typename T>
HWY_INLINE void Scatter(const T* from, int64_t count, int64_t stride, void* piece, int64_t first) {
  T* out = static_cast<T*>(piece) + first;
  if (stride == 1) {
    std::copy_n(from, count, out);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i * stride] = from[i];
  }
}

void StoreImpl(const KvSlot& slot, const float* in, int64_t heads, void* piece, bool transposed) {
  const int64_t count = slot.head_dim;
  const int64_t stride = transposed ? slot.block_size : 1;
  const int64_t first = transposed ? slot.slot : slot.slot * count;
  for (int64_t head = 0; head < heads; ++head) {
    const float* from = in + head * count;
    std::byte* to = static_cast<std::byte*>(piece) + head * slot.head_stride;
    uint16_t halves[kMaxHeadDim];
    int8_t bytes[kMaxHeadDim];
    switch (slot.dtype) {
      case DType::kF16:
        Round(from, count, F16FromF32, halves);
        Scatter(halves, count, stride, to, first);
        break;
      case DType::kBF16:
        RoundBF16(from, count, halves);
        Scatter(halves, count, stride, to, first);
        break;
      case DType::kI8:
        reinterpret_cast<float*>(to + slot.block_size * count)[slot.slot] = RoundI8(from, count, bytes);
        Scatter(bytes, count, stride, to, first);
        break;
      default:
        Scatter(from, count, stride, to, first);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {

HWY_EXPORT(StoreImpl);

void StoreKeys(const KvSlot& slot, const float* in, int64_t heads, void* piece) {
  HWY_DYNAMIC_DISPATCH(StoreImpl)(slot, in, heads, piece, true);
}

void StoreValues(const KvSlot& slot, const float* in, int64_t heads, void* piece) {
  HWY_DYNAMIC_DISPATCH(StoreImpl)(slot, in, heads, piece, false);
}

}  // namespace baton::cpu
#endif  // HWY_ONCE
