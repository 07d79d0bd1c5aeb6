#include "common/text/byte_alphabet.h"

#include <array>

#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr bool SpellsItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, 0x144> byte{};  // by character; -1: not in the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (auto& b : alphabet.byte) b = -1;
  int shifted = 0;
  for (int b = 0; b < 256; ++b) {
    const char32_t c = SpellsItself(b) ? b : 0x100 + shifted++;
    alphabet.character[b] = c;
    alphabet.byte[c] = static_cast<int16_t>(b);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

char32_t SpellByte(uint8_t byte) { return kAlphabet.character[byte]; }

std::optional<std::string> BytesOfSpelling(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  for (size_t i = 0; i < spelling.size();) {
    const Utf8Character c = CharacterAt(spelling, i);
    if (c.value >= kAlphabet.byte.size() || kAlphabet.byte[c.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[c.value]));
    i += c.length;
  }
  return bytes;
}

}  // namespace baton
