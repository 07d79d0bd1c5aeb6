#pragma once

// Philox 4x32-10: a counter-based random stream (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
// A draw is a function of key and counter alone, so nothing has to be stored, moved or skipped over.

#include <array>
#include <cstdint>

#include "common/base/host_device.h"

namespace baton {

BATON_HOST_DEVICE std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// 64 uniform bits for one token of one choice of one request.
BATON_HOST_DEVICE uint64_t TokenRandom(uint64_t seed, uint32_t choice_index, uint32_t token_index) {
  const auto bits =
      Philox4x32({choice_index, token_index, 0, 0}, {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{bits[1]} << 32 | bits[0];
}

}  // namespace baton
