#include "kernels/quantized_rows.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baton::cpu::HWY_NAMESPACE {

constexpr int kGroupVectors = static_cast<int>(kGroupInputs) / kLanes;

HWY_INLINE void QuantizeGroup(const float* x, int8_t* values, ActivationGroup* group) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> d32;
  const hn::Rebind<int8_t, F32Tag> d8;
  F32 largest = hn::Zero(d);
  for (int v = 0; v < kGroupVectors; ++v) largest = hn::Max(largest, hn::Abs(LoadF32(x + v * kLanes)));
  const float magnitude = hn::GetLane(hn::MaxOfLanes(d, largest));
  const bool zero = magnitude < 0x1p-100f;
  const F32 factor = hn::Set(d, zero ? 0.0f : 127.0f / magnitude);
  // Adding 1.5 * 2^23 rounds to the nearest whole number, which then stands in the low bits.
  const F32 magic = hn::Set(d, 12582912.0f);
  const auto magic_bits = hn::BitCast(d32, magic);
  auto sums = hn::Zero(d32);
  for (int v = 0; v < kGroupVectors; ++v) {
    const F32 rounded = hn::Add(hn::Mul(LoadF32(x + v * kLanes), factor), magic);
    const auto whole = hn::Sub(hn::BitCast(d32, rounded), magic_bits);
    sums = hn::Add(sums, whole);
    hn::StoreU(hn::DemoteTo(d8, whole), d8, values + v * kLanes);
  }
  const int32_t sum = hn::GetLane(hn::SumOfLanes(d32, sums));
  group->scale = zero ? 0.0f : magnitude / 127.0f;
  group->scaled_sum = group->scale * static_cast<float>(sum);
  // Unsigned: what is not finite gives a wrong sum beside a scale that is not finite either.
  group->start_int8 = static_cast<int32_t>(-128u * static_cast<uint32_t>(sum));
  group->start_int4 = static_cast<int32_t>(-8u * static_cast<uint32_t>(sum));
}

void QuantizeImpl(const float* row, int64_t inputs, int8_t* values, ActivationGroup* groups) {
  const int64_t whole = inputs / kGroupInputs;
  for (int64_t g = 0; g < whole; ++g) QuantizeGroup(row + g * kGroupInputs, values + g * kGroupInputs, groups + g);
  const int64_t first = whole * kGroupInputs;
  if (first == inputs) return;
  HWY_ALIGN float rest[kGroupInputs] = {};
  for (int64_t i = first; i < inputs; ++i) rest[i - first] = row[i];
  QuantizeGroup(rest, values + first, groups + whole);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton::cpu {

HWY_EXPORT(QuantizeImpl);

int64_t QuantizedRows::ValueStride(int64_t inputs) {
  const int64_t padded = (inputs + kGroupInputs - 1) / kGroupInputs * kGroupInputs;
  return ((padded + 63) / 64 | 1) * 64;  // an odd number of cache lines
}

QuantizedRows::QuantizedRows(int64_t max_rows, int64_t max_inputs)
    : values_(static_cast<uint64_t>(max_rows * ValueStride(max_inputs))),
      groups_(static_cast<uint64_t>(max_rows * GroupStride(max_inputs)) * sizeof(ActivationGroup)) {}

void QuantizedRows::Quantize(int64_t index, const float* row, int64_t inputs) const {
  HWY_DYNAMIC_DISPATCH(QuantizeImpl)(row, inputs, values(index, inputs), groups(index, inputs));
}

}  // namespace baton::cpu
#endif  // HWY_ONCE
