#pragma once

// 128-bit hash for block identity and checksums of KV bytes. Not cryptographic; seeded use keeps salts apart.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace baton {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;

  friend constexpr auto operator<=>(const Hash128&, const Hash128&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Hash128& hash) {
    return H::combine(std::move(state), hash.high, hash.low);
  }
};

// MurmurHash3 x64 128 (Appleby, public domain) with a 128-bit seed.
Hash128 HashBytes(std::span<const std::byte> bytes, Hash128 seed = {});
Hash128 HashText(std::string_view text, Hash128 seed = {});

// Checksum of one KV block as it crosses a transport.
inline uint64_t Checksum(std::span<const std::byte> bytes) { return HashBytes(bytes).low; }

// 64 random bits from the operating system: incarnations, secrets, attempts, seeds.
uint64_t RandomU64();

}  // namespace baton
