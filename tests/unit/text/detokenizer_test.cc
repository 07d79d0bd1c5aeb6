#include "common/text/detokenizer.h"

#include <random>

#include "common/text/utf8.h"
#include "tests/unit/text/fixtures.h"

namespace baton::text_test {
namespace {

TEST(Detokenizer, DET_01_ACharacterOfTwoTokensIsOneDelta) {
  // U+6B6A is E6 AD AA: as in Llama-3, two bytes in one token and one in the next.
  const TokenizerPtr tokenizer = ByteLevelTokenizer({"\xE6\xAD"});
  EXPECT_EQ(Deltas(tokenizer, {256, 0xAA}), (std::vector<std::string>{"", "\u6B6A", ""}));
}

TEST(Detokenizer, DET_01_DeltasAreAlwaysWholeCharacters) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama3_style");
  const std::string text = "\U0001F468\u200D\U0001F469\u200D\U0001F467 \u2167 e\u0301 \u6B6A";
  const Ids ids = MustEncode(*tokenizer, text);
  for (const std::string& delta : Deltas(tokenizer, ids)) {
    EXPECT_EQ(FirstInvalidUtf8(delta), std::nullopt);
    EXPECT_EQ(delta.find("\uFFFD"), std::string::npos);
  }
  EXPECT_EQ(Join(Deltas(tokenizer, ids)), text);
}

TEST(Detokenizer, DET_02_AnIncompleteCharacterAtTheEndIsOneReplacement) {
  const TokenizerPtr tokenizer = ByteLevelTokenizer({"\xE6\xAD"}, {"<eos>"});
  EXPECT_EQ(Deltas(tokenizer, {256}), (std::vector<std::string>{"", "\uFFFD"}));
  EXPECT_EQ(Deltas(tokenizer, {256, 257}), (std::vector<std::string>{"", "", "\uFFFD"}));
  EXPECT_EQ(tokenizer->Decode(Ids{256, 257}), "\uFFFD");
}

TEST(Detokenizer, DET_03_RandomBytesStreamAsTheyDecodeAndNeverStall) {
  const TokenizerPtr tokenizer = ByteLevelTokenizer({"\xE6\xAD", "Hello", "\xF0\x9F\x98"});
  std::mt19937 random(3);
  for (int round = 0; round < 2'000; ++round) {
    Ids ids;
    for (size_t i = random() % 12; i > 0; --i) ids.push_back(static_cast<TokenId>(128 + random() % 131));
    Detokenizer detokenizer(tokenizer);
    std::string text;
    for (const TokenId id : ids) {
      text += detokenizer.Add(id);
      EXPECT_LE(detokenizer.pending_bytes(), 3);
      EXPECT_EQ(FirstInvalidUtf8(text), std::nullopt);
    }
    text += detokenizer.Finish();
    EXPECT_EQ(text, tokenizer->Decode(ids));
  }
  EXPECT_EQ(Deltas(tokenizer, {0x8D, 257}), (std::vector<std::string>{"\uFFFD", "Hello", ""}));
}

TEST(Detokenizer, DET_05_SpacesSurviveInEveryGrouping) {
  const std::string text = "at the cat.  a    b";
  const TokenizerPtr pieces = SentencePieceTokenizer({"▁", "▁at", "▁the", "▁cat", ".", "▁a", "▁b", "▁▁", "▁▁▁▁"});
  const TokenizerPtr bytes = ByteLevelTokenizer({"at", " the", " cat", "  ", "    "});
  const std::vector<std::pair<TokenizerPtr, Ids>> models = {
      {pieces, {260, 261, 262, 263, 259, 264, 266, 259, 265}},
      {bytes, {256, 257, 258, '.', 259, 'a', 260, 'b'}},
  };
  for (const auto& [tokenizer, ids] : models) {
    EXPECT_EQ(tokenizer->Decode(ids), text);
    for (const size_t interval : {1, 2, 8}) {
      Detokenizer detokenizer(tokenizer);
      std::string chunk, all;
      for (size_t i = 0; i < ids.size(); ++i) {
        chunk += detokenizer.Add(ids[i]);
        if ((i + 1) % interval == 0) all += std::exchange(chunk, "");
      }
      EXPECT_EQ(all + chunk + detokenizer.Finish(), text);
    }
  }
}

TEST(Detokenizer, DET_05_AContinuationKeepsItsFirstSpace) {
  const TokenizerPtr tokenizer = SentencePieceTokenizer({"▁Paris"});
  EXPECT_EQ(Join(Deltas(tokenizer, {259})), "Paris");
  EXPECT_EQ(Join(Deltas(tokenizer, {259}, {.strip_leading_space = false})), " Paris");
}

TEST(Detokenizer, SpecialTokensAreSkippedOrShown) {
  const TokenizerPtr tokenizer = ByteLevelTokenizer({"\xE6\xAD"}, {"<eos>"});
  EXPECT_EQ(Join(Deltas(tokenizer, {'a', 257, 'b'})), "ab");
  EXPECT_EQ(Join(Deltas(tokenizer, {'a', 257, 'b'}, {.skip_special_tokens = false})), "a<eos>b");
  // A skipped token does not part a character; a shown one does.
  EXPECT_EQ(Join(Deltas(tokenizer, {256, 257, 0xAA})), "\u6B6A");
  EXPECT_EQ(Join(Deltas(tokenizer, {256, 257, 0xAA}, {.skip_special_tokens = false})), "\uFFFD<eos>\uFFFD");
}

}  // namespace
}  // namespace baton::text_test
