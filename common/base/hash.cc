#include "common/base/hash.h"

#include <bit>
#include <cstring>
#include <random>

namespace baton {
namespace {

constexpr uint64_t kC1 = 0x87c37b91114253d5ULL;
constexpr uint64_t kC2 = 0x4cf5ad432745937fULL;

uint64_t Mix(uint64_t k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccdULL;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53ULL;
  k ^= k >> 33;
  return k;
}

}  // namespace

Hash128 HashBytes(std::span<const std::byte> bytes, Hash128 seed) {
  uint64_t h1 = seed.high;
  uint64_t h2 = seed.low;
  size_t i = 0;
  for (; i + 16 <= bytes.size(); i += 16) {
    uint64_t k1, k2;
    std::memcpy(&k1, bytes.data() + i, 8);
    std::memcpy(&k2, bytes.data() + i + 8, 8);
    h1 ^= std::rotl(k1 * kC1, 31) * kC2;
    h1 = (std::rotl(h1, 27) + h2) * 5 + 0x52dce729;
    h2 ^= std::rotl(k2 * kC2, 33) * kC1;
    h2 = (std::rotl(h2, 31) + h1) * 5 + 0x38495ab5;
  }
  if (i < bytes.size()) {
    uint64_t tail[2] = {0, 0};
    std::memcpy(tail, bytes.data() + i, bytes.size() - i);
    h2 ^= std::rotl(tail[1] * kC2, 33) * kC1;
    h1 ^= std::rotl(tail[0] * kC1, 31) * kC2;
  }
  h1 ^= bytes.size();
  h2 ^= bytes.size();
  h1 += h2;
  h2 += h1;
  h1 = Mix(h1);
  h2 = Mix(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

Hash128 HashText(std::string_view text, Hash128 seed) {
  return HashBytes(std::as_bytes(std::span(text.data(), text.size())), seed);
}

uint64_t RandomU64() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace baton
