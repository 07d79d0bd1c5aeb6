#include "common/base/hash.h"

#include <cstring>
#include <random>

#include "common/base/murmur3.h"

namespace baton {
Hash128 HashBytes(std::span<const std::byte> bytes, Hash128 seed) {
  murmur3::Words state{seed.high, seed.low};
  size_t i = 0;
  for (; i + 16 <= bytes.size(); i += 16) {
    murmur3::Words words;
    std::memcpy(&words, bytes.data() + i, 16);
    murmur3::Add(state, murmur3::Scramble(words));
  }
  if (i < bytes.size()) {
    murmur3::Words tail;
    std::memcpy(&tail, bytes.data() + i, bytes.size() - i);
    tail = murmur3::Scramble(tail);
    state.first ^= tail.first;
    state.second ^= tail.second;
  }
  state = murmur3::Finish(state, bytes.size());
  return {state.first, state.second};
}

Hash128 HashText(std::string_view text, Hash128 seed) {
  return HashBytes(std::as_bytes(std::span(text.data(), text.size())), seed);
}

uint64_t RandomU64() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace baton
