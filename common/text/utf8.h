#pragma once

// UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton {

// Offset of the first byte that is not part of a well-formed character; nothing if all are.
std::optional<size_t> FirstInvalidUtf8(std::string_view text);

struct Utf8Character {
  char32_t value;
  int length;  // bytes
};

// The character at `text[offset]`; `text` must be valid UTF-8 and `offset` the start of a character in it.
Utf8Character CharacterAt(std::string_view text, size_t offset);

// Start of the character that ends right before `offset` > 0 in valid UTF-8.
size_t PreviousCharacter(std::string_view text, size_t offset);

// Number of characters (code points) in valid UTF-8.
size_t CountCharacters(std::string_view text);

void AppendUtf8(char32_t character, std::string* out);

// Unicode White_Space.
bool IsWhiteSpace(char32_t character);

// Bytes to valid UTF-8, incrementally. Every maximal ill-formed part becomes one U+FFFD (Unicode 15, section 3.9).
class Utf8Decoder {
 public:
  // Appends to `out` all characters that `bytes` completes.
  void Add(std::string_view bytes, std::string* out);
  // Appends U+FFFD if an incomplete character is pending.
  void Finish(std::string* out);
  int pending_bytes() const { return pending_size_; }
  // Whether a character is pending and may go on with `byte`.
  bool MayContinueWith(char byte) const;

 private:
  char pending_[4] = {};
  int pending_size_ = 0;
};

}  // namespace baton
