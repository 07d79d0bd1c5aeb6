#pragma once

// Probabilities as weights relative to the likeliest token: float exp(l - max) in [0, 1] where they are compared,
// 64-bit fixed point where they are added. Integer sums do not depend on the order of their terms.

#include <bit>
#include <cstdint>
#include <limits>

#include "common/base/host_device.h"
#include "common/base/ids.h"

namespace baton {

// The unit of masses is 2^-40: a vocabulary of 2^20 tokens cannot overflow 64 bits.
inline constexpr float kMassUnits = 1099511627776.0f;

// The weight as an integer.
BATON_HOST_DEVICE uint64_t WeightMass(float weight) { return static_cast<uint64_t>(weight * kMassUnits); }

// High half of the product: `random` / 2^64 of a mass, below it.
BATON_HOST_DEVICE uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}

// `p` of `mass`, at least 1.
BATON_HOST_DEVICE uint64_t ShareOfMass(uint64_t mass, float p) {
  const auto scaled = static_cast<uint64_t>(static_cast<double>(p) * 4294967296.0);
  const auto share = static_cast<uint64_t>(static_cast<unsigned __int128>(mass) * scaled >> 32);
  return share > 1 ? share : 1;
}

// A prefix of the ids in the order "weight descending, then id ascending": what a filter left over.
struct KeptPrefix {
  // Bits of the smallest weight kept ...
  uint32_t smallest_bits = (127u - 40u) << 23;  // of 2^-40
  // ... which only ids up to this one keep.
  TokenId last_id = std::numeric_limits<TokenId>::max();

  // Bits are ordered as weights are: they are not negative.
  BATON_HOST_DEVICE bool Keeps(uint32_t bits, TokenId id) const {
    return bits > smallest_bits || (bits == smallest_bits && id <= last_id);
  }
  BATON_HOST_DEVICE bool Keeps(float weight, TokenId id) const { return Keeps(std::bit_cast<uint32_t>(weight), id); }
};

// Of those, the weights of at least `p` times the largest, which is 1.
BATON_HOST_DEVICE KeptPrefix KeepMinP(KeptPrefix kept, float p) {
  const uint32_t bits = std::bit_cast<uint32_t>(p < 1.0f ? p : 1.0f);
  if (bits <= kept.smallest_bits) return kept;
  return {bits, std::numeric_limits<TokenId>::max()};
}

}  // namespace baton
