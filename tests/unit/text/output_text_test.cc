#include "common/text/output_text.h"

#include <random>

#include "common/text/utf8.h"
#include "tests/unit/text/fixtures.h"

namespace baton::text_test {
namespace {

struct Stream {
  std::vector<std::string> texts;
  std::vector<std::vector<int64_t>> tokens;  // indexes, per delta
  Ids ids;
  std::vector<int64_t> offsets;

  void Add(const OutputDelta& delta) {
    texts.push_back(delta.text);
    tokens.emplace_back();
    for (const OutputToken& token : delta.tokens) {
      tokens.back().push_back(token.index);
      ids.push_back(token.id);
      offsets.push_back(token.text_offset);
    }
  }
  std::string text() const { return Join(texts); }
};

enum class End { kFinish, kStopToken };

// Feeds `ids` until the choice ends; with kStopToken the last one is the stop token.
Stream Feed(OutputText* output, const Ids& ids, End end = End::kFinish) {
  Stream stream;
  for (size_t i = 0; i < ids.size() && !output->ended(); ++i) {
    const bool stop_token = end == End::kStopToken && i + 1 == ids.size();
    stream.Add(stop_token ? output->AddStopToken(ids[i]) : output->Add(ids[i]));
  }
  stream.Add(output->Finish());
  return stream;
}

using Texts = std::vector<std::string>;
using Indexes = std::vector<std::vector<int64_t>>;

// 256 "ab", 257 E6 AD, 258 "...", 259 "\nUser", 260 "<eos>" (control), 261 "<|eot_id|>" (control)
TokenizerPtr Vocabulary() { return ByteLevelTokenizer({"ab", "\xE6\xAD", "...", "\nUser"}, {"<eos>", "<|eot_id|>"}); }
constexpr TokenId kHalf = 257, kDots = 258, kUser = 259, kEos = 260, kEot = 261;

TEST(OutputText, DET_02_AnIncompleteEndIsOneReplacementInEveryEnding) {
  for (const End end : {End::kFinish, End::kStopToken}) {
    OutputText output(Vocabulary(), {});
    const Ids ids = end == End::kFinish ? Ids{'x', kHalf} : Ids{'x', kHalf, kEos};
    const Stream stream = Feed(&output, ids, end);
    EXPECT_EQ(stream.text(), "x\uFFFD");
    EXPECT_EQ(output.token_count(), static_cast<int64_t>(ids.size()));
    EXPECT_EQ(stream.ids, ids);
  }
}

TEST(OutputText, DET_02_NothingFollowsTheCut) {
  OutputText output(Vocabulary(), {.stops = Stops({"y"})});
  const Stream stream = Feed(&output, {'x', 'y', kHalf});
  EXPECT_EQ(stream.text(), "x");
  EXPECT_EQ(output.matched_stop(), "y");
  EXPECT_TRUE(output.Add(kHalf).empty());
  EXPECT_EQ(output.token_count(), 2);
}

TEST(OutputText, DET_06_AStopOverSeveralTokensIsNeverShown) {
  OutputText output(Vocabulary(), {.stops = Stops({"\nUser:"})});
  const Stream stream = Feed(&output, {'a', kUser, ':', 'b'});
  EXPECT_EQ(stream.texts, (Texts{"a", "", "", ""}));
  EXPECT_EQ(stream.tokens, (Indexes{{0}, {}, {1, 2}, {}}));
  EXPECT_EQ(output.matched_stop(), "\nUser:");
  EXPECT_TRUE(output.ended());
}

TEST(OutputText, DET_07_HeldTextIsReleasedWhenTheChoiceEnds) {
  OutputText output(Vocabulary(), {.stops = Stops({"assistant"})});
  const Stream stream = Feed(&output, {'l', 'a', 's', kEos}, End::kStopToken);
  EXPECT_EQ(stream.texts, (Texts{"l", "", "", "as", ""}));
  EXPECT_EQ(stream.tokens, (Indexes{{0}, {}, {}, {1, 2, 3}, {}}));
  EXPECT_EQ(output.matched_stop(), std::nullopt);
}

TEST(OutputText, DET_08_AStopInsideATokenTakesItsTail) {
  for (const bool include : {false, true}) {
    OutputText output(Vocabulary(), {.stops = Stops({".."}), .include_stop = include});
    const Stream stream = Feed(&output, {'a', kDots});
    EXPECT_EQ(stream.text(), include ? "a.." : "a");
    EXPECT_EQ(output.token_count(), 2);
    EXPECT_EQ(stream.ids, (Ids{'a', kDots}));
  }
}

TEST(OutputText, DET_08_AStopTokenIsShownOnlyWhenAskedAndNotSkipped) {
  const auto text = [](TokenId stop, bool include, bool skip) {
    OutputText output(Vocabulary(), {.include_stop = include, .skip_special_tokens = skip});
    const Stream stream = Feed(&output, {256, 'c', stop}, End::kStopToken);
    EXPECT_EQ(output.token_count(), 3);
    EXPECT_EQ(stream.ids, (Ids{256, 'c', stop}));
    return stream.text();
  };
  EXPECT_EQ(text(kEos, false, true), "abc");
  EXPECT_EQ(text(kEos, false, false), "abc");
  EXPECT_EQ(text(kEos, true, true), "abc");
  EXPECT_EQ(text(kEos, true, false), "abc<eos>");
  EXPECT_EQ(text(kDots, false, true), "abc");
  EXPECT_EQ(text(kDots, true, true), "abc...");
}

TEST(OutputText, DET_09_AStopThatIsAControlTokenWorksAlthoughThoseAreSkipped) {
  for (const bool skip : {true, false}) {
    OutputText output(Vocabulary(), {.stops = Stops({"END", "<|eot_id|>"}), .skip_special_tokens = skip});
    const Stream stream = Feed(&output, {'a', 'E', kEot, 'b'});
    EXPECT_EQ(stream.text(), "aE");
    EXPECT_EQ(output.matched_stop(), "<|eot_id|>");
    EXPECT_EQ(output.token_count(), 3);
    EXPECT_EQ(stream.ids, (Ids{'a', 'E', kEot}));
  }
}

TEST(OutputText, DET_11_TokensOfACharacterComeWithItAndShareItsOffset) {
  OutputText output(Vocabulary(), {});
  const Stream stream = Feed(&output, {'x', 0xE6, 0xAD, 0xAA, 'y'});
  EXPECT_EQ(stream.texts, (Texts{"x", "", "", "\u6B6A", "y", ""}));
  EXPECT_EQ(stream.tokens, (Indexes{{0}, {}, {}, {1, 2, 3}, {4}, {}}));
  EXPECT_EQ(stream.offsets, (std::vector<int64_t>{0, 1, 1, 1, 2}));
}

TEST(OutputText, DET_11_AReplacedCharacterCountsBeforeTheNextToken) {
  OutputText output(Vocabulary(), {});
  const Stream stream = Feed(&output, {'x', kHalf, 'y', kHalf, 0xFF});
  EXPECT_EQ(stream.text(), "x\uFFFDy\uFFFD\uFFFD");
  EXPECT_EQ(stream.offsets, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST(OutputText, DET_11_HeldTokensComeWithTheirText) {
  OutputText output(Vocabulary(), {.stops = Stops({"abX"})});
  const Stream stream = Feed(&output, {'z', 'a', 'b', 'c', kEos, 'd'});
  EXPECT_EQ(stream.texts, (Texts{"z", "", "", "abc", "", "d", ""}));
  EXPECT_EQ(stream.tokens, (Indexes{{0}, {}, {}, {1, 2, 3}, {4}, {5}, {}}));
  EXPECT_EQ(stream.offsets, (std::vector<int64_t>{0, 1, 2, 3, 4, 4}));
}

TEST(OutputText, DET_11_OffsetsFollowAnEchoedPrompt) {
  OutputText output(Vocabulary(), {.first_text_offset = 7});
  EXPECT_EQ(Feed(&output, {'x', 'y'}).offsets, (std::vector<int64_t>{7, 8}));
}

TEST(OutputText, DET_11_OffsetsOfACutStopLieAtTheEndOfTheText) {
  OutputText output(Vocabulary(), {.stops = Stops({"bcd"})});
  EXPECT_EQ(Feed(&output, {'a', 'b', 'c', 'd'}).offsets, (std::vector<int64_t>{0, 1, 1, 1}));
}

// Every way of ending, with random tokens: nothing is lost, doubled or early.
TEST(OutputText, DET_11_AllDeltasTogetherCarryEveryTokenOnce) {
  const TokenizerPtr tokenizer = Vocabulary();
  std::mt19937 random(11);
  const TokenId choices[] = {'a', 'b', 'U', 's', 0xE6, 0xAD, 0xAA, 0xFF, 256, kHalf, kDots, kUser, kEos, kEot};
  for (int round = 0; round < 5'000; ++round) {
    Ids ids;
    for (size_t i = 1 + random() % 12; i > 0; --i) ids.push_back(choices[random() % std::size(choices)]);
    OutputTextOptions options;
    if (random() % 2) options.stops = Stops({"sab", "ab.", "\u6B6AU", "<eos>"});
    options.include_stop = random() % 2;
    options.skip_special_tokens = random() % 2;
    options.min_tokens = static_cast<int64_t>(random() % 4);
    OutputText output(tokenizer, options);
    const Stream stream = Feed(&output, ids, random() % 2 ? End::kFinish : End::kStopToken);
    ids.resize(output.token_count());
    EXPECT_EQ(stream.ids, ids);
    EXPECT_TRUE(std::is_sorted(stream.offsets.begin(), stream.offsets.end()));
    EXPECT_LE(stream.offsets.back(), static_cast<int64_t>(CountCharacters(stream.text())));
    // A stop token that is not shown ends the text before it.
    bool is_prefix = false;
    for (const size_t count : {ids.size(), ids.size() - 1}) {
      const Ids shown(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count));
      const std::string whole = tokenizer->Decode(shown, {.skip_special_tokens = options.skip_special_tokens});
      is_prefix = is_prefix || whole.starts_with(stream.text());
    }
    EXPECT_TRUE(is_prefix) << stream.text();
    if (options.stops == nullptr) {
      // Text sent before a delta never covers a token of that delta.
      int64_t sent = 0;
      for (size_t i = 0, next = 0; i < stream.texts.size(); ++i) {
        for (size_t k = 0; k < stream.tokens[i].size(); ++k) EXPECT_GE(stream.offsets[next++], sent);
        sent += static_cast<int64_t>(CountCharacters(stream.texts[i]));
      }
    }
  }
}

TEST(OutputText, StopsCannotMatchWithinTheFirstTokens) {
  OutputText output(Vocabulary(), {.stops = Stops({"b"}), .min_tokens = 3});
  const Stream stream = Feed(&output, {'a', 'b', 'b', 'c', 'b', 'd'});
  EXPECT_EQ(stream.text(), "abbc");
  EXPECT_EQ(output.token_count(), 5);
}

}  // namespace
}  // namespace baton::text_test
