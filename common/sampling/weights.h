#pragma once

// Probabilities as weights relative to the likeliest token: float exp(l - max) in [0, 1] where they are compared,
// 64-bit fixed point where they are added. Integer sums do not depend on the order of their terms.

#include <bit>
#include <cstdint>
#include <limits>
#include <span>

#include "common/base/ids.h"

namespace baton {

// The weight as an integer, unit 2^-40; a vocabulary of 2^20 tokens cannot overflow 64 bits.
inline uint64_t WeightMass(float weight) { return static_cast<uint64_t>(weight * 1099511627776.0f); }

// Turns NaN and infinities into -inf ("impossible") in place; returns the largest logit, -inf when none is possible.
float MaskNonFinite(std::span<float> logits);

// A prefix of the ids in the order "weight descending, then id ascending": what a filter left over.
struct KeptPrefix {
  uint32_t smallest_bits = std::bit_cast<uint32_t>(1.0f / 1099511627776.0f);  // bits of the smallest weight kept ...
  TokenId last_id = std::numeric_limits<TokenId>::max();                      // ... which only ids up to this one keep

  bool Keeps(float weight, TokenId id) const {
    const uint32_t bits = std::bit_cast<uint32_t>(weight);  // ordered as the weights are: they are not negative
    return bits > smallest_bits || (bits == smallest_bits && id <= last_id);
  }
};

// Each keeps at least one id. `weights` are in [0, 1] with a 1 among them.
KeptPrefix KeepTopK(std::span<const float> weights, KeptPrefix kept, uint32_t k);
// The shortest prefix that holds `p` of the mass in `kept`.
KeptPrefix KeepTopP(std::span<const float> weights, KeptPrefix kept, float p);
// That prefix as an amount: `p` of `mass`, at least 1.
uint64_t ShareOfMass(uint64_t mass, float p);
// The shortest prefix that holds `goal`; `kept` when all of it holds less.
KeptPrefix KeepMass(std::span<const float> weights, KeptPrefix kept, uint64_t goal);
// Weights of at least `p` times the largest.
KeptPrefix KeepMinP(KeptPrefix kept, float p);

// The id at which `random` / 2^64 of the kept mass, added in the order of the ids, is passed.
TokenId DrawToken(std::span<const float> weights, KeptPrefix kept, uint64_t random);

}  // namespace baton
