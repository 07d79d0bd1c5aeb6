#pragma once

// One regular expression of a tokenizer file, matched by PCRE2.
//
// Tokenizer files are written for Oniguruma. Where the two disagree about Unicode, the pattern is rewritten to
// Oniguruma's meaning (\s is White_Space, \w the Unicode word characters); syntax that PCRE2 would silently read
// differently (sets inside sets, &&, \h) is refused.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace baton {

// Immutable; Matchers on any number of threads may share it.
class Regex {
 public:
  // INVALID_ARGUMENT with PCRE2's message and the offset; UNIMPLEMENTED for syntax that is refused.
  static absl::StatusOr<std::shared_ptr<const Regex>> Compile(std::string_view pattern);
  ~Regex();

  const std::string& pattern() const { return pattern_; }

 private:
  friend class RegexMatcher;
  Regex() = default;

  std::string pattern_;  // as in the file
  pcre2_real_code_8* code_ = nullptr;
  bool jit_ = false;
};

// Finds matches one after the other in one text, with bounded stack and bounded work per match. Not thread safe.
class RegexMatcher {
 public:
  // `text` must be valid UTF-8; both must outlive the matcher.
  RegexMatcher(const Regex& regex, std::string_view text);
  ~RegexMatcher();
  RegexMatcher(const RegexMatcher&) = delete;
  RegexMatcher& operator=(const RegexMatcher&) = delete;

  // First non-empty match that begins at or after byte `from`, as [begin, end). RESOURCE_EXHAUSTED if the pattern
  // needs more steps or memory than a tokenizer's pattern should.
  absl::StatusOr<std::optional<std::pair<size_t, size_t>>> Find(size_t from);

 private:
  const Regex& regex_;
  std::string_view text_;
  pcre2_real_match_data_8* match_data_;
  pcre2_real_match_context_8* context_;
};

}  // namespace baton
