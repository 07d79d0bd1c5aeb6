#include "common/text/pattern.h"

namespace baton {
namespace {

constexpr size_t kMatchesBetweenPolls = 4096;

absl::StatusOr<std::vector<TextSpan>> FindLiteral(std::string_view literal, std::string_view text) {
  std::vector<TextSpan> spans;
  if (literal.empty()) return spans;
  for (size_t at = text.find(literal); at != text.npos; at = text.find(literal, at + literal.size())) {
    spans.emplace_back(at, at + literal.size());
  }
  return spans;
}

}  // namespace

absl::StatusOr<Pattern> ReadPattern(const Json& object, std::string_view path) {
  const Json* json = FindMember(object, "pattern");
  if (json == nullptr) return InvalidArgument("%s.pattern is missing", path);
  Pattern pattern;
  if (FindMember(*json, "Regex") != nullptr) {
    BATON_ASSIGN_OR_RETURN(const std::string source, ReadString(*json, "Regex", path));
    BATON_ASSIGN_OR_RETURN(pattern.regex, Regex::Compile(source));
  } else {
    BATON_ASSIGN_OR_RETURN(pattern.literal, ReadString(*json, "String", path));
  }
  return pattern;
}

absl::StatusOr<std::vector<TextSpan>> FindPattern(const Pattern& pattern, std::string_view text,
                                                  const std::function<bool()>& cancelled) {
  if (pattern.regex == nullptr) return FindLiteral(pattern.literal, text);
  std::vector<TextSpan> spans;
  RegexMatcher matcher(*pattern.regex, text);
  for (size_t from = 0; from < text.size(); from = spans.back().second) {
    if (spans.size() % kMatchesBetweenPolls == kMatchesBetweenPolls - 1 && cancelled && cancelled()) {
      return Cancelled("tokenization cancelled at byte %d of %d", from, text.size());
    }
    BATON_ASSIGN_OR_RETURN(const auto span, matcher.Find(from));
    if (!span) break;
    spans.push_back(*span);
  }
  return spans;
}

}  // namespace baton
