#pragma once

// GPT-2's alphabet: every byte written as one printable character, so that a vocabulary file holds no raw bytes.
// Printable Latin-1 bytes stand for themselves, the other 68 are U+0100 onwards in byte order (Radford et al. 2019,
// bytes_to_unicode).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton {

// The character that spells `byte`.
char32_t SpellByte(uint8_t byte);

// The bytes that `spelling` stands for; nothing if it holds a character outside the alphabet. Valid UTF-8 in.
std::optional<std::string> BytesOfSpelling(std::string_view spelling);

}  // namespace baton
