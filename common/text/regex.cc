#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/text/regex.h"

#include <pcre2.h>

#include <cctype>

#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr uint32_t kMatchLimit = 20'000'000;  // backtracking steps of one match
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr size_t kMaxPatternBytes = 64 * 1024;

// White_Space, for use inside [...]. PCRE2's \s also has U+180E.
constexpr std::string_view kSpaceSet = R"(\t\n\x0b\f\r\x85\p{Z})";
// Alphabetic, marks, decimal digits, connectors. PCRE2 10.42's \w lacks marks and connectors.
constexpr std::string_view kWordSet = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{200c}\x{200d})";

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

absl::Status Refuse(std::string_view what, size_t offset, std::string_view pattern) {
  return Unimplemented("regular expression uses %s at byte %d, which is not supported: %s", what, offset, pattern);
}

// Appends the meaning of the escape \`c`; `in_set` inside [...].
absl::Status AppendEscape(char c, bool in_set, size_t offset, std::string_view pattern, std::string* out) {
  const bool lower = c == 's' || c == 'w';
  if (lower || c == 'S' || c == 'W') {
    const std::string_view set = std::tolower(c) == 's' ? kSpaceSet : kWordSet;
    if (in_set) {
      if (!lower) {
        // The complement cannot be spelled out here, so \S and \W stay PCRE2's own: they differ in a few rare
        // characters.
        out->append({'\\', c});
      } else {
        out->append(set);
      }
    } else {
      out->append(lower ? "[" : "[^").append(set).append("]");
    }
    return absl::OkStatus();
  }
  constexpr std::string_view kSame = "pPdDrntfvxbBAzZ";
  if (std::isalnum(static_cast<unsigned char>(c)) && kSame.find(c) == kSame.npos) {
    return Refuse(std::string("\\") + c, offset, pattern);
  }
  out->append({'\\', c});
  return absl::OkStatus();
}

absl::StatusOr<std::string> Translate(std::string_view pattern) {
  std::string out;
  bool in_set = false;
  size_t set_begin = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      if (i + 1 == pattern.size()) return InvalidArgument("regular expression ends in a backslash: %s", pattern);
      if (pattern[i + 1] == 'u') {  // \uHHHH
        if (i + 6 > pattern.size()) return InvalidArgument("regular expression ends inside \\u: %s", pattern);
        out.append("\\x{").append(pattern.substr(i + 2, 4)).append("}");
        i += 5;
        continue;
      }
      BATON_RETURN_IF_ERROR(AppendEscape(pattern[i + 1], in_set, i, pattern, &out));
      ++i;
      continue;
    }
    if (!in_set && c == '[') {
      in_set = true;
      set_begin = out.size() + 1 + (i + 1 < pattern.size() && pattern[i + 1] == '^');
    } else if (in_set && c == '[') {
      return Refuse("a set inside a set", i, pattern);
    } else if (in_set && c == '&' && pattern.substr(i, 2) == "&&") {
      return Refuse("&&", i, pattern);
    } else if (in_set && c == ']' && out.size() > set_begin) {
      in_set = false;
    } else if (!in_set && c == '(' && (pattern.substr(i, 2) == "(*" || pattern.substr(i, 3) == "(?C")) {
      return Refuse("a control verb or callout", i, pattern);
    }
    out.push_back(c);
  }
  return out;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Regex>> Regex::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return InvalidArgument("regular expression has %d bytes, at most %d are taken", pattern.size(), kMaxPatternBytes);
  }
  if (FirstInvalidUtf8(pattern)) return InvalidArgument("regular expression is not valid UTF-8");
  BATON_ASSIGN_OR_RETURN(const std::string translated, Translate(pattern));
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &error_offset, nullptr);
  if (code == nullptr) {
    return InvalidArgument("regular expression is wrong at byte %d (%s): %s", error_offset, ErrorText(error),
                           translated);
  }
  std::shared_ptr<Regex> regex(new Regex());
  regex->pattern_ = pattern;
  regex->code_ = code;
  regex->jit_ = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;  // absent on some machines: the interpreter matches
  return std::shared_ptr<const Regex>(std::move(regex));
}

Regex::~Regex() { pcre2_code_free(code_); }

RegexMatcher::RegexMatcher(const Regex& regex, std::string_view text)
    : regex_(regex),
      text_(text),
      match_data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)) {
  BATON_CHECK(match_data_ != nullptr && context_ != nullptr);
  pcre2_set_match_limit(context_, kMatchLimit);
  pcre2_set_heap_limit(context_, kHeapLimitKib);
}

RegexMatcher::~RegexMatcher() {
  pcre2_match_data_free(match_data_);
  pcre2_match_context_free(context_);
}

absl::StatusOr<std::optional<std::pair<size_t, size_t>>> RegexMatcher::Find(size_t from) {
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  int count = pcre2_match(regex_.code_, subject, text_.size(), from, options, match_data_, context_);
  if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
    // Compiled code backtracks on 32 KiB of the machine's stack; the interpreter uses the heap.
    count = pcre2_match(regex_.code_, subject, text_.size(), from, options | PCRE2_NO_JIT, match_data_, context_);
  }
  if (count == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (count < 0) {
    return ResourceExhausted("tokenizer's regular expression gave up at byte %d of %d (%s)", from, text_.size(),
                             ErrorText(count));
  }
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match_data_);
  // \K could move the start; a tokenizer has no use for it.
  if (span[0] < from || span[1] <= span[0]) return InvalidArgument("regular expression gave an empty piece");
  return std::make_pair(span[0], span[1]);
}

}  // namespace baton
