#include "common/text/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "common/text/utf8.h"

namespace baton {
namespace {

bool IsWordCharacter(char32_t c) {
  if (c < 0x80) return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC;
}

bool IsSingleWord(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && IsWordCharacter(CharacterAt(text, PreviousCharacter(text, begin)).value)) return false;
  return end == text.size() || !IsWordCharacter(CharacterAt(text, end).value);
}

size_t SkipSpaceLeft(std::string_view text, size_t begin, size_t limit) {
  while (begin > limit) {
    const size_t previous = PreviousCharacter(text, begin);
    if (!IsWhiteSpace(CharacterAt(text, previous).value)) break;
    begin = previous;
  }
  return std::max(begin, limit);
}

size_t SkipSpaceRight(std::string_view text, size_t end) {
  while (end < text.size()) {
    const Utf8Character c = CharacterAt(text, end);
    if (!IsWhiteSpace(c.value)) break;
    end += c.length;
  }
  return end;
}

}  // namespace

void AddedTokenFinder::Add(std::string_view content, const AddedToken* token) {
  if (content.empty()) return;
  uint32_t node = 0;
  for (const char c : content) {
    const auto [entry, inserted] = nodes_[node].next.try_emplace(static_cast<uint8_t>(c), nodes_.size());
    node = entry->second;
    if (inserted) nodes_.emplace_back();
  }
  if (nodes_[node].token == nullptr) nodes_[node].token = token;
  first_byte_[static_cast<uint8_t>(content[0])] = true;
}

const AddedToken* AddedTokenFinder::LongestAt(std::string_view text, size_t begin, const Filter& allowed,
                                              size_t* end) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const auto entry = nodes_[node].next.find(static_cast<uint8_t>(text[i]));
    if (entry == nodes_[node].next.end()) break;
    node = entry->second;
    const AddedToken* token = nodes_[node].token;
    if (token == nullptr || !allowed(*token, begin, i + 1)) continue;
    if (token->single_word && !IsSingleWord(text, begin, i + 1)) continue;
    longest = token;
    *end = i + 1;
  }
  return longest;
}

std::vector<TextOrToken> AddedTokenFinder::Find(std::string_view text, const Filter& allowed) const {
  std::vector<TextOrToken> parts;
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    size_t end = 0;
    const AddedToken* token = first_byte_[static_cast<uint8_t>(text[i])] ? LongestAt(text, i, allowed, &end) : nullptr;
    if (token == nullptr) {
      ++i;
      continue;
    }
    const size_t begin = token->lstrip ? SkipSpaceLeft(text, i, done) : i;
    if (token->rstrip) end = SkipSpaceRight(text, end);
    if (begin > done) parts.push_back({text.substr(done, begin - done), nullptr});
    parts.push_back({text.substr(begin, end - begin), token});
    done = i = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), nullptr});
  return parts;
}

}  // namespace baton
