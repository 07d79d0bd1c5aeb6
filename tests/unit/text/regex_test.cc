#include "common/text/regex.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

std::vector<std::string> All(std::string_view pattern, std::string_view text) {
  auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<std::string> found;
  RegexMatcher matcher(**regex, text);
  for (size_t from = 0;;) {
    auto span = matcher.Find(from);
    EXPECT_TRUE(span.ok()) << span.status();
    if (!span.ok() || !span->has_value()) return found;
    found.emplace_back(text.substr((*span)->first, (*span)->second - (*span)->first));
    from = (*span)->second;
  }
}

absl::StatusCode CompileCode(std::string_view pattern) { return Regex::Compile(pattern).status().code(); }

using Found = std::vector<std::string>;

TEST(Regex, FindsOneMatchAfterTheOther) {
  EXPECT_EQ(All(R"(\p{L}+|\p{N})", "ab12\u00E9"), (Found{"ab", "1", "2", "\u00E9"}));
  EXPECT_EQ(All(R"(\s+(?!\S)|\s+)", "a   b "), (Found{"  ", " ", " "}));
}

TEST(Regex, EmptyMatchesAreNone) { EXPECT_EQ(All("x*", "axxb"), (Found{"xx"})); }

TEST(Regex, SpaceIsUnicodeWhiteSpace) {
  EXPECT_EQ(All(R"(\s)", "\u0085\u2028\u3000\u00A0"), (Found{"\u0085", "\u2028", "\u3000", "\u00A0"}));
  EXPECT_EQ(All(R"(\s)", "\u180E\u200B"), Found{});  // a format character; PCRE2's own \s has it
  EXPECT_EQ(All(R"([^\s]+)", "a\u180E b"), (Found{"a\u180E", "b"}));
  EXPECT_EQ(All(R"(\S+)", "a\u180E b"), (Found{"a\u180E", "b"}));
}

TEST(Regex, WordCharactersAreUnicodes) {
  EXPECT_EQ(All(R"(\w+)", "e\u0301_\u0661 \u24B6"), (Found{"e\u0301_\u0661", "\u24B6"}));
}

TEST(Regex, IgnoresCaseAsUnicodeDoes) { EXPECT_EQ(All("(?i:'s)", "'S'\u017F"), (Found{"'S", "'\u017F"})); }

TEST(Regex, ReadsFourDigitEscapes) { EXPECT_EQ(All(R"([\u4e00-\u9fff]+)", "a\u4E2Db"), (Found{"\u4E2D"})); }

TEST(Regex, SyntaxThatOtherLibrariesReadDifferentlyIsRefused) {
  EXPECT_EQ(CompileCode("[a[bc]]"), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CompileCode("[a&&b]"), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CompileCode(R"(\h)"), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CompileCode("(*UTF)"), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CompileCode("(?C1)a"), absl::StatusCode::kUnimplemented);
}

TEST(Regex, BrokenPatternsAreRefused) {
  for (const char* pattern : {"(", "[", "a{2,1}", "\\", "\\u12", "(?<", "*", R"(\p{Nope})"}) {
    EXPECT_EQ(CompileCode(pattern), absl::StatusCode::kInvalidArgument) << pattern;
  }
  EXPECT_EQ(CompileCode("\xFF"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CompileCode(std::string(1 << 20, 'a')), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
