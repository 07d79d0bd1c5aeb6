#include "common/text/added_tokens.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

using Parts = std::vector<std::pair<TokenId, std::string>>;  // -1: text

class Finder {
 public:
  explicit Finder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
    for (const AddedToken& token : tokens_) finder_.Add(token.content, &token);
  }
  Parts operator()(std::string_view text, bool special = true) const {
    Parts parts;
    const auto allowed = [special](const AddedToken& token, size_t, size_t) { return special || !token.special; };
    for (const TextOrToken& part : finder_.Find(text, allowed)) {
      parts.emplace_back(part.token == nullptr ? -1 : part.token->id, part.text);
    }
    return parts;
  }

 private:
  std::vector<AddedToken> tokens_;
  AddedTokenFinder finder_;
};

TEST(AddedTokens, TheLeftmostThenTheLongestIsTaken) {
  const Finder find({{.id = 1, .content = "<a>"}, {.id = 2, .content = "<a>b"}, {.id = 3, .content = ">bc"}});
  EXPECT_EQ(find("x<a>bc<a>"), (Parts{{-1, "x"}, {2, "<a>b"}, {-1, "c"}, {1, "<a>"}}));
}

TEST(AddedTokens, ATokenThatIsNotAllowedGivesWayToAShorterOne) {
  const Finder find({{.id = 1, .content = "<a>"}, {.id = 2, .content = "<a>b", .special = true}});
  EXPECT_EQ(find("<a>b", true), (Parts{{2, "<a>b"}}));
  EXPECT_EQ(find("<a>b", false), (Parts{{1, "<a>"}, {-1, "b"}}));
}

TEST(AddedTokens, TOK_11_StripFlagsSwallowAllWhiteSpace) {
  const Finder find({{.id = 1, .content = "<l>", .lstrip = true},
                     {.id = 2, .content = "<r>", .rstrip = true},
                     {.id = 3, .content = "<b>", .lstrip = true, .rstrip = true}});
  EXPECT_EQ(find("a \n\u3000<l> b"), (Parts{{-1, "a"}, {1, " \n\u3000<l>"}, {-1, " b"}}));
  EXPECT_EQ(find("a <r>\t\u00A0b"), (Parts{{-1, "a "}, {2, "<r>\t\u00A0"}, {-1, "b"}}));
  EXPECT_EQ(find("   <b> <b>   "), (Parts{{3, "   <b> "}, {3, "<b>   "}}));
  EXPECT_EQ(find("<r>  <l>"), (Parts{{2, "<r>  "}, {1, "<l>"}}));
}

TEST(AddedTokens, TOK_11_SingleWordsStandAlone) {
  const Finder find({{.id = 1, .content = "cat", .single_word = true}});
  EXPECT_EQ(find("cat, cats \u00E9cat cat"), (Parts{{1, "cat"}, {-1, ", cats \u00E9cat "}, {1, "cat"}}));
  EXPECT_EQ(find("cat_"), (Parts{{-1, "cat_"}}));
}

TEST(AddedTokens, TOK_11_OfTwoTokensSpelledAlikeTheFirstStays) {
  const Finder find({{.id = 1, .content = "x"}, {.id = 2, .content = "x"}});
  EXPECT_EQ(find("x"), (Parts{{1, "x"}}));
}

}  // namespace
}  // namespace baton
