#include "common/sampling/weights.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "common/base/fixed_math.h"

namespace baton {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 8;  // independent maxima, so that the loop can be vectorised

// The shortest prefix of `kept` whose measures add up to `goal`, by a radix search over the bits of the weights:
// a few linear passes whatever the distribution, no copy, no sort.
template <typename Measure>
KeptPrefix ShortestPrefix(std::span<const float> weights, KeptPrefix kept, uint64_t goal, const Measure& measure) {
  uint32_t prefix = 0;
  uint64_t above = 0;
  for (const int shift : {20, 10, 0}) {
    std::array<uint64_t, 1024> histogram{};
    for (size_t id = 0; id < weights.size(); ++id) {
      const uint32_t bits = std::bit_cast<uint32_t>(weights[id]);
      if (bits < kept.smallest_bits || (shift != 20 && bits >> (shift + 10) != prefix)) continue;
      if (!kept.Keeps(weights[id], static_cast<TokenId>(id))) continue;
      histogram[bits >> shift & 1023] += measure(weights[id]);
    }
    uint32_t bucket = 1023;
    while (bucket > 0 && above + histogram[bucket] < goal) above += histogram[bucket--];
    prefix = prefix << 10 | bucket;
  }
  // All of the same weight now: the lower ids first.
  for (size_t id = 0; id < weights.size(); ++id) {
    if (std::bit_cast<uint32_t>(weights[id]) != prefix || !kept.Keeps(weights[id], static_cast<TokenId>(id))) continue;
    above += measure(weights[id]);
    if (above >= goal) return {prefix, static_cast<TokenId>(id)};
  }
  return kept;  // all of it holds less than the goal
}

uint64_t KeptMass(std::span<const float> weights, KeptPrefix kept) {
  uint64_t mass = 0;
  for (size_t id = 0; id < weights.size(); ++id) {
    if (kept.Keeps(weights[id], static_cast<TokenId>(id))) mass += WeightMass(weights[id]);
  }
  return mass;
}

}  // namespace

float MaskNonFinite(std::span<float> logits) {
  std::array<float, kLanes> lanes;
  lanes.fill(kImpossible);
  const auto take = [&](size_t i, size_t lane) {
    const uint32_t bits = std::bit_cast<uint32_t>(logits[i]);
    const float value = (bits & 0x7F800000) == 0x7F800000 ? kImpossible : logits[i];
    logits[i] = value;
    lanes[lane] = value > lanes[lane] ? value : lanes[lane];
  };
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) take(i + lane, lane);
  }
  for (; i < logits.size(); ++i) take(i, 0);
  return *std::max_element(lanes.begin(), lanes.end());
}

KeptPrefix KeepTopK(std::span<const float> weights, KeptPrefix kept, uint32_t k) {
  if (k >= weights.size()) return kept;
  return ShortestPrefix(weights, kept, std::max<uint32_t>(k, 1), [](float) { return uint64_t{1}; });
}

KeptPrefix KeepMass(std::span<const float> weights, KeptPrefix kept, uint64_t goal) {
  return ShortestPrefix(weights, kept, goal, WeightMass);
}

KeptPrefix KeepTopP(std::span<const float> weights, KeptPrefix kept, float p) {
  if (p >= 1.0f) return kept;
  return KeepMass(weights, kept, ShareOfMass(KeptMass(weights, kept), p));
}

TokenId DrawToken(std::span<const float> weights, KeptPrefix kept, uint64_t random) {
  const uint64_t mass = KeptMass(weights, kept);
  const uint64_t target = MultiplyHigh(random, mass);
  uint64_t passed = 0;
  TokenId last = 0;
  for (size_t id = 0; id < weights.size(); ++id) {
    if (!kept.Keeps(weights[id], static_cast<TokenId>(id))) continue;
    last = static_cast<TokenId>(id);
    passed += WeightMass(weights[id]);
    if (passed > target) return last;
  }
  return last;
}

}  // namespace baton
