#include "common/text/unicode_normalization.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

using enum NormalizationForm;

TEST(UnicodeNormalization, TOK_08_ComposesByTheWholeOfUax15) {
  const std::pair<const char*, const char*> cases[] = {
      {"e\u0301", "\u00E9"},
      {"\u1100\u1161\u11A8", "\uAC01"},        // Hangul by arithmetic
      {"\uAC00\u11A8", "\uAC01"},              // a syllable and its final
      {"a\u0301\u0323", "\u1EA1\u0301"},       // marks in canonical order first
      {"\u1E0B\u0323", "\u1E0D\u0307"},        // decomposed, ordered, composed
      {"\u0958", "\u0915\u093C"},              // excluded from composition
      {"\U0001D15E", "\U0001D157\U0001D165"},  // excluded
      {"\u212B", "\u00C5"},                    // a singleton
      {"e\u0323\u0301", "\u1EB9\u0301"},
      {"a\u0315\u0300\u05AEb", "\u00E0\u05AE\u0315b"},  // a blocked mark stays, order by class
      {"\u0301", "\u0301"},
      {"plain", "plain"},
  };
  for (const auto& [from, to] : cases) EXPECT_EQ(NormalizeUnicode(from, kNfc), to) << from;
}

TEST(UnicodeNormalization, TheOtherFormsDecomposeOrFold) {
  EXPECT_EQ(NormalizeUnicode("\u00E9", kNfd), "e\u0301");
  EXPECT_EQ(NormalizeUnicode("\uAC01", kNfd), "\u1100\u1161\u11A8");
  EXPECT_EQ(NormalizeUnicode("\uFB01\u00B2", kNfkc), "fi2");
  EXPECT_EQ(NormalizeUnicode("\uFB01\u00E9", kNfkd), "fie\u0301");
  EXPECT_EQ(NormalizeUnicode("\uFB01", kNfc), "\uFB01");
}

TEST(UnicodeNormalization, ZeroAndUnassignedCharactersStay) {
  const std::string text("a\0\u0378\U0010FFFFe\u0301", 11);
  EXPECT_EQ(NormalizeUnicode(text, kNfc), std::string("a\0\u0378\U0010FFFF\u00E9", 10));
}

}  // namespace
}  // namespace baton
