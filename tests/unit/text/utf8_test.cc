#include "common/text/utf8.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

std::string Decoded(std::vector<std::string> parts) {
  Utf8Decoder decoder;
  std::string text;
  for (const std::string& part : parts) decoder.Add(part, &text);
  decoder.Finish(&text);
  return text;
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FirstInvalidUtf8("a\u00E9\u6B6A\U0001F600"), std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8(std::string_view("\0", 1)), std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8("ab\xFF"), 2);
  EXPECT_EQ(FirstInvalidUtf8("\xE6\xAD"), 0);
  EXPECT_EQ(FirstInvalidUtf8("a\xC0\xAF"), 1);         // overlong
  EXPECT_EQ(FirstInvalidUtf8("a\xED\xA0\x80"), 1);     // surrogate
  EXPECT_EQ(FirstInvalidUtf8("\xF4\x90\x80\x80"), 0);  // above U+10FFFF
  EXPECT_EQ(FirstInvalidUtf8("\xE0\x80\x80"), 0);
  EXPECT_EQ(FirstInvalidUtf8("\xF0\x80\x80\x80"), 0);
  EXPECT_EQ(FirstInvalidUtf8("\x80"), 0);
}

TEST(Utf8, EveryCharacterSurvivesTheRoundTrip) {
  for (char32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 257) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(c, &text);
    EXPECT_EQ(FirstInvalidUtf8(text), std::nullopt);
    EXPECT_EQ(CharacterAt(text, 0).value, c);
    EXPECT_EQ(CharacterAt(text, 0).length, static_cast<int>(text.size()));
    EXPECT_EQ(PreviousCharacter("x" + text, 1 + text.size()), 1u);
    EXPECT_EQ(CountCharacters(text), 1u);
  }
}

TEST(Utf8Decoder, ReplacesEachMaximalIllFormedPart) {
  EXPECT_EQ(Decoded({"\xE6\xAD"}), "\uFFFD");
  EXPECT_EQ(Decoded({"\xE6\xAD"
                     "a"}),
            "\uFFFD"
            "a");
  EXPECT_EQ(Decoded({"\xFF\xFE"}), "\uFFFD\uFFFD");
  EXPECT_EQ(Decoded({"\xF0\x9F\x98"}), "\uFFFD");
  EXPECT_EQ(Decoded({"\xED\xA0\x80"}), "\uFFFD\uFFFD\uFFFD");  // ED may not be followed by A0
  EXPECT_EQ(Decoded({"\xC0\xAF"}), "\uFFFD\uFFFD");
  EXPECT_EQ(Decoded({"\xE6\xE6\xAD\xAA"}), "\uFFFD\u6B6A");
}

TEST(Utf8Decoder, HowTheBytesAreCutDoesNotMatter) {
  const std::string bytes = "a\xE6\xAD\xAA\xF0\x9F\x98\x80\xED\xA0\x80\xE6\xF0\x9F\xFF\xC3\xA9\xE2\x80";
  const std::string whole = Decoded({bytes});
  for (size_t i = 0; i <= bytes.size(); ++i) {
    for (size_t k = i; k <= bytes.size(); ++k) {
      EXPECT_EQ(Decoded({bytes.substr(0, i), bytes.substr(i, k - i), bytes.substr(k)}), whole);
    }
  }
}

TEST(Utf8Decoder, HoldsBackThreeBytesAtMost) {
  Utf8Decoder decoder;
  std::string text;
  for (const char c : std::string("\xF0\x9F\x98")) decoder.Add(std::string(1, c), &text);
  EXPECT_EQ(decoder.pending_bytes(), 3);
  EXPECT_EQ(text, "");
  decoder.Add("\x80z", &text);
  EXPECT_EQ(decoder.pending_bytes(), 0);
  EXPECT_EQ(text, "\U0001F600z");
}

}  // namespace
}  // namespace baton
