#pragma once

// A literal string or a regular expression, as tokenizer.json writes them: {"String": " "} or {"Regex": "\\s+"}.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/json_reader.h"
#include "common/text/regex.h"

namespace baton {

struct Pattern {
  std::string literal;                 // if `regex` is null
  std::shared_ptr<const Regex> regex;  // matches if set
};

// Reads `object.pattern`.
absl::StatusOr<Pattern> ReadPattern(const Json& object, std::string_view path);

using TextSpan = std::pair<size_t, size_t>;  // bytes [first, second)

// All matches in `text` (valid UTF-8), left to right, none empty, none overlapping. `cancelled` may be null.
absl::StatusOr<std::vector<TextSpan>> FindPattern(const Pattern& pattern, std::string_view text,
                                                  const std::function<bool()>& cancelled);

}  // namespace baton
