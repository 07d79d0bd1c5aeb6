#include "common/sampling/logit_blocks.h"

#include <algorithm>
#include <limits>

#include "common/base/fixed_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/sampling/logit_blocks.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, by its rules.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace baton::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, 16>;
using Floats = hn::Vec<Tag>;
constexpr size_t kLanes = hn::MaxLanes(Tag());
constexpr float kInfinity = std::numeric_limits<float>::infinity();

HWY_INLINE Floats LoadPossible(const float* from) {
  const Tag d;
  const Floats logits = hn::LoadU(d, from);
  const auto finite = hn::Lt(hn::Abs(logits), hn::Set(d, kInfinity));  // false for NaN
  return hn::IfThenElse(finite, logits, hn::Set(d, -kInfinity));
}

// ExpNonPositive of fixed_math.h, operation by operation.
HWY_INLINE Floats VectorExpNonPositive(Floats x) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const Floats lowest = hn::Set(d, kSmallestExponent);
  const Floats clamped = hn::Max(x, lowest);
  const Floats round = hn::Set(d, 12582912.0f);
  const Floats n = hn::Sub(hn::Add(hn::Mul(clamped, hn::Set(d, 1.44269504f)), round), round);
  const Floats r =
      hn::Sub(hn::Sub(clamped, hn::Mul(n, hn::Set(d, 0.693359375f))), hn::Mul(n, hn::Set(d, -2.12194440e-4f)));
  Floats sum = hn::Set(d, 1.0f / 5040);
  for (const float term : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    sum = hn::Add(hn::Mul(sum, r), hn::Set(d, term));
  }
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  const Floats value = hn::Min(hn::Mul(sum, hn::BitCast(d, exponent)), hn::Set(d, 1.0f));
  return hn::IfThenZeroElse(hn::Lt(x, lowest), value);
}

// A block of fewer logits, filled up with impossible ones.
struct FullBlock {
  explicit FullBlock(std::span<const float> block) {
    std::fill(std::copy(block.begin(), block.end(), logits), logits + kLogitBlock, -kInfinity);
  }
  HWY_ALIGN float logits[kLogitBlock];
};

HWY_INLINE float MaximumOf(const float* block) {
  Floats highest = LoadPossible(block);
  for (size_t i = kLanes; i < kLogitBlock; i += kLanes) highest = hn::Max(highest, LoadPossible(block + i));
  return hn::GetLane(hn::MaxOfLanes(Tag(), highest));
}

void BlockMaximaImpl(std::span<const float> logits, std::span<float> maxima) {
  const size_t whole = logits.size() / kLogitBlock;
  for (size_t block = 0; block < whole; ++block) maxima[block] = MaximumOf(logits.data() + block * kLogitBlock);
  if (whole < maxima.size()) maxima[whole] = MaximumOf(FullBlock(LogitBlockAt(logits, whole)).logits);
}

HWY_INLINE Floats WeightsAt(const float* logits, float max, float temperature) {
  const Tag d;
  return VectorExpNonPositive(hn::Div(hn::Sub(LoadPossible(logits), hn::Set(d, max)), hn::Set(d, temperature)));
}

void BlockWeightsImpl(std::span<const float> block, float max, float temperature, float* weights) {
  const FullBlock full(block);
  HWY_ALIGN float out[kLogitBlock];
  for (size_t i = 0; i < kLogitBlock; i += kLanes) {
    hn::Store(WeightsAt(full.logits + i, max, temperature), Tag(), out + i);
  }
  std::copy_n(out, block.size(), weights);
}

// Whole numbers up to 64 * 2^40, added as doubles without rounding.
HWY_INLINE uint64_t MassOf(const float* block, float max, float temperature) {
  double mass = 0;
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < kLogitBlock; ++i) {
    mass += static_cast<double>(
        static_cast<uint64_t>(hn::GetLane(WeightsAt(block + i, max, temperature)) * 1099511627776.0f));
  }
#else
  const hn::Repartition<double, Tag> dd;
  const hn::Half<Tag> half;
  auto sum = hn::Zero(dd);
  for (size_t i = 0; i < kLogitBlock; i += kLanes) {
    const Floats units = hn::Floor(hn::Mul(WeightsAt(block + i, max, temperature), hn::Set(Tag(), 1099511627776.0f)));
    sum = hn::Add(sum, hn::PromoteTo(dd, hn::LowerHalf(half, units)));
    sum = hn::Add(sum, hn::PromoteTo(dd, hn::UpperHalf(half, units)));
  }
  mass = hn::GetLane(hn::SumOfLanes(dd, sum));
#endif
  return static_cast<uint64_t>(mass);
}

uint64_t BlockMassesImpl(std::span<const float> logits, std::span<const float> maxima, float max, float temperature,
                         std::span<uint64_t> masses) {
  uint64_t total = 0;
  for (size_t block = 0; block < maxima.size(); ++block) {
    masses[block] = 0;
    if ((maxima[block] - max) / temperature < kSmallestExponent) continue;  // then so is every other one of it
    const std::span<const float> part = LogitBlockAt(logits, block);
    masses[block] = part.size() == kLogitBlock ? MassOf(part.data(), max, temperature)
                                               : MassOf(FullBlock(part).logits, max, temperature);
    total += masses[block];
  }
  return total;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace baton::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baton {

HWY_EXPORT(BlockMaximaImpl);
HWY_EXPORT(BlockWeightsImpl);
HWY_EXPORT(BlockMassesImpl);

void BlockMaxima(std::span<const float> logits, std::span<float> maxima) {
  HWY_DYNAMIC_DISPATCH(BlockMaximaImpl)(logits, maxima);
}

void BlockWeights(std::span<const float> block, float max, float temperature, float* weights) {
  HWY_DYNAMIC_DISPATCH(BlockWeightsImpl)(block, max, temperature, weights);
}

uint64_t BlockMasses(std::span<const float> logits, std::span<const float> maxima, float max, float temperature,
                     std::span<uint64_t> masses) {
  return HWY_DYNAMIC_DISPATCH(BlockMassesImpl)(logits, maxima, max, temperature, masses);
}

}  // namespace baton
#endif  // HWY_ONCE
