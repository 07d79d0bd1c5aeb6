#pragma once

// Unicode normalization forms (UAX #15) in time linear in the text but for the sort of one run of combining marks.

#include <string>
#include <string_view>

namespace baton {

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` must be valid UTF-8.
std::string NormalizeUnicode(std::string_view text, NormalizationForm form);

}  // namespace baton
