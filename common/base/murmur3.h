#pragma once

// The steps of MurmurHash3 x64 128 (Appleby, public domain), for hash.h and for the checksum of blocks in device
// memory.

#include <cstdint>

#include "common/base/host_device.h"

namespace baton::murmur3 {

inline constexpr uint64_t kC1 = 0x87c37b91114253d5ULL;
inline constexpr uint64_t kC2 = 0x4cf5ad432745937fULL;

struct Words {
  uint64_t first = 0;
  uint64_t second = 0;
};

BATON_HOST_DEVICE uint64_t RotateLeft(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

// What happens to 16 bytes before they meet the state.
BATON_HOST_DEVICE Words Scramble(Words k) {
  return {RotateLeft(k.first * kC1, 31) * kC2, RotateLeft(k.second * kC2, 33) * kC1};
}

BATON_HOST_DEVICE void Add(Words& state, const Words& scrambled) {
  state.first ^= scrambled.first;
  state.first = (RotateLeft(state.first, 27) + state.second) * 5 + 0x52dce729;
  state.second ^= scrambled.second;
  state.second = (RotateLeft(state.second, 31) + state.first) * 5 + 0x38495ab5;
}

BATON_HOST_DEVICE uint64_t Mix(uint64_t k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccdULL;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53ULL;
  k ^= k >> 33;
  return k;
}

// The hash, once all bytes were added.
BATON_HOST_DEVICE Words Finish(Words state, uint64_t bytes) {
  state.first ^= bytes;
  state.second ^= bytes;
  state.first += state.second;
  state.second += state.first;
  state.first = Mix(state.first);
  state.second = Mix(state.second);
  state.first += state.second;
  state.second += state.first;
  return state;
}

}  // namespace baton::murmur3
