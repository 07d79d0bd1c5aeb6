#include "common/text/utf8.h"

#include <algorithm>

namespace baton {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Length of the character that `lead` begins, 0 if none does.
int LengthFromLead(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// Whether `byte` may stand at `position` >= 1 of a character that begins with `lead` (Unicode 15, table 3-7).
bool Continues(uint8_t lead, int position, uint8_t byte) {
  if (position == 1) {
    if (lead == 0xE0) return byte >= 0xA0 && byte <= 0xBF;
    if (lead == 0xED) return byte >= 0x80 && byte <= 0x9F;
    if (lead == 0xF0) return byte >= 0x90 && byte <= 0xBF;
    if (lead == 0xF4) return byte >= 0x80 && byte <= 0x8F;
  }
  return byte >= 0x80 && byte <= 0xBF;
}

// Bytes at the start of `text` that are a character (`complete`) or the beginning of one; 0 if neither.
size_t WellFormedPrefix(std::string_view text, bool* complete) {
  const uint8_t lead = text[0];
  const int length = LengthFromLead(lead);
  *complete = false;
  if (length == 0) return 0;
  for (int i = 1; i < length; ++i) {
    if (i >= static_cast<int>(text.size()) || !Continues(lead, i, text[i])) return i;
  }
  *complete = true;
  return length;
}

}  // namespace

std::optional<size_t> FirstInvalidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    bool complete;
    const size_t length = WellFormedPrefix(text.substr(i), &complete);
    if (!complete) return i;
    i += length;
  }
  return std::nullopt;
}

Utf8Character CharacterAt(std::string_view text, size_t offset) {
  const uint8_t lead = text[offset];
  if (lead < 0x80) return {lead, 1};
  const int length = LengthFromLead(lead);
  char32_t value = lead & (0xFF >> (length + 1));
  for (int i = 1; i < length; ++i) value = value << 6 | (static_cast<uint8_t>(text[offset + i]) & 0x3F);
  return {value, length};
}

size_t PreviousCharacter(std::string_view text, size_t offset) {
  do {
    --offset;
  } while (offset > 0 && (static_cast<uint8_t>(text[offset]) & 0xC0) == 0x80);
  return offset;
}

size_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

void Utf8Decoder::Add(std::string_view bytes, std::string* out) {
  // One pending character at most, so joining copies 3 bytes.
  std::string joined;
  if (pending_size_ > 0) {
    joined.assign(pending_, pending_size_);
    joined.append(bytes);
    bytes = joined;
    pending_size_ = 0;
  }
  for (size_t i = 0; i < bytes.size();) {
    bool complete;
    const size_t length = WellFormedPrefix(bytes.substr(i), &complete);
    if (complete) {
      out->append(bytes.substr(i, length));
      i += length;
    } else if (i + length == bytes.size() && length > 0) {
      pending_size_ = static_cast<int>(length);
      std::copy_n(bytes.data() + i, length, pending_);
      return;
    } else {
      out->append(kReplacement);
      i += std::max<size_t>(length, 1);
    }
  }
}

void Utf8Decoder::Finish(std::string* out) {
  if (pending_size_ > 0) out->append(kReplacement);
  pending_size_ = 0;
}

bool Utf8Decoder::MayContinueWith(char byte) const {
  return pending_size_ > 0 && Continues(pending_[0], pending_size_, byte);
}

}  // namespace baton
