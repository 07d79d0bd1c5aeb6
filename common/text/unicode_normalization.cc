#include "common/text/unicode_normalization.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "common/text/utf8.h"

namespace baton {
namespace {

// Characters below these are their own normal form and take part in no composition with one another.
constexpr char32_t kFirstInNfc = 0x300, kFirstInOthers = 0xA0;

bool IsNormalAlready(std::string_view text, char32_t first) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = CharacterAt(text, i);
    if (c.value >= first) return false;
    i += c.length;
  }
  return true;
}

// Canonical ordering. utf8proc's own is quadratic in the length of a run of marks, which a caller could choose.
void SortMarks(std::vector<utf8proc_int32_t>* characters) {
  const auto mark_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto it = characters->begin(); it != characters->end();) {
    if (mark_class(*it) == 0) {
      ++it;
      continue;
    }
    auto end = it;
    while (end != characters->end() && mark_class(*end) != 0) ++end;
    std::stable_sort(it, end, [&](utf8proc_int32_t a, utf8proc_int32_t b) { return mark_class(a) < mark_class(b); });
    it = end;
  }
}

}  // namespace

std::string NormalizeUnicode(std::string_view text, NormalizationForm form) {
  if (IsNormalAlready(text, form == NormalizationForm::kNfc ? kFirstInNfc : kFirstInOthers)) return std::string(text);
  const bool compatibility = form == NormalizationForm::kNfkc || form == NormalizationForm::kNfkd;
  const bool compose = form == NormalizationForm::kNfc || form == NormalizationForm::kNfkc;
  const auto decompose =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  utf8proc_int32_t expansion[32];  // the longest decomposition has 18 characters (U+FDFA)
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = CharacterAt(text, i);
    i += c.length;
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), expansion, 32, decompose, &boundary);
    if (count < 0 || count > 32) {
      characters.push_back(static_cast<utf8proc_int32_t>(c.value));
    } else {
      characters.insert(characters.end(), expansion, expansion + count);
    }
  }
  SortMarks(&characters);
  auto length = static_cast<utf8proc_ssize_t>(characters.size());
  if (compose) {
    length = utf8proc_normalize_utf32(characters.data(), length,
                                      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  }
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) AppendUtf8(static_cast<char32_t>(characters[i]), &out);
  return out;
}

}  // namespace baton
