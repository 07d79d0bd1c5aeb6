#include "common/text/stop_matcher.h"

#include <random>

#include "common/text/utf8.h"
#include "tests/unit/text/fixtures.h"

namespace baton::text_test {
namespace {

struct Result {
  std::vector<std::string> deltas;
  std::string stop;  // empty: none matched
  friend bool operator==(const Result&, const Result&) = default;
};

Result Match(std::vector<std::string> stops, const std::vector<std::string>& parts, bool include_stop = false) {
  StopMatcher matcher(Stops(std::move(stops)), include_stop);
  Result result;
  for (const std::string& part : parts) result.deltas.push_back(matcher.Add(part));
  result.deltas.push_back(matcher.Finish());
  if (matcher.matched()) result.stop = matcher.matched_stop();
  return result;
}

TEST(StopMatcher, DET_06_AStopSpreadOverPartsIsFoundAndNeverShown) {
  EXPECT_EQ(Match({"\nUser:"}, {"\nUser", ":"}), (Result{{"", "", ""}, "\nUser:"}));
  EXPECT_EQ(Match({"DEFGHIJ"}, {"DEF", "G", "HI", "J"}), (Result{{"", "", "", "", ""}, "DEFGHIJ"}));
  EXPECT_EQ(Match({"own fox"}, {" brown", " fox"}), (Result{{" br", "", ""}, "own fox"}));
}

TEST(StopMatcher, DET_06_TheEarliestCompletedMatchCuts) {
  EXPECT_EQ(Match({"ab", "abc"}, {"a", "b", "c"}), (Result{{"", "", "", ""}, "ab"}));
  EXPECT_EQ(Match({"abc", "ab"}, {"xabc"}), (Result{{"x", ""}, "ab"}));
  EXPECT_EQ(Match({"fox", "own fox"}, {"brown fox"}), (Result{{"br", ""}, "own fox"}));  // the same end: the longest
  EXPECT_EQ(Match({"aab"}, {"aa", "ab"}), (Result{{"", "a", ""}, "aab"}));
}

TEST(StopMatcher, DET_07_HeldTextIsReleasedAtTheEnd) {
  EXPECT_EQ(Match({"\n"}, {"?\n"}), (Result{{"?", ""}, "\n"}));
  EXPECT_EQ(Match({"assistant"}, {"ple", "as"}), (Result{{"ple", "", "as"}, ""}));
}

TEST(StopMatcher, DET_07_TextThatCannotBeginAStopIsNotDelayed) {
  StopMatcher matcher(Stops({"XYZ"}), false);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(matcher.Add("token "), "token ");
  EXPECT_EQ(matcher.Add("aXY"), "a");
  EXPECT_EQ(matcher.Add("b"), "XYb");
}

TEST(StopMatcher, DET_08_AStopInsideAPartTakesItsTail) {
  EXPECT_EQ(Match({".."}, {"a..."}), (Result{{"a", ""}, ".."}));
  EXPECT_EQ(Match({".."}, {"a..."}, /*include_stop=*/true), (Result{{"a..", ""}, ".."}));
  EXPECT_EQ(Match({"ab"}, {"xa", "bc"}, true), (Result{{"x", "ab", ""}, "ab"}));
}

TEST(StopMatcher, DET_08_EmptyAndBrokenStopsAreRefused) {
  for (const std::vector<std::string>& stops :
       {std::vector<std::string>{""}, {"ok", ""}, {"ok", "\xFF"}, {"\xE6\xAD"}}) {
    EXPECT_EQ(StopStrings::Create(stops).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(StopStrings::Create({}).ok());
}

TEST(StopMatcher, DeltasAreWholeCharacters) {
  // The stop begins with the same byte as the text's character.
  EXPECT_EQ(Match({"\u00E9x"}, {"\u00E3", "\u00E9", "y"}), (Result{{"\u00E3", "", "\u00E9y", ""}, ""}));
}

// The rule itself: the stop whose last byte comes first, of several the longest.
std::pair<size_t, std::string> FirstMatch(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0 && stop.size() > best.size()) {
        best = stop;
      }
    }
    if (!best.empty()) return {end - best.size(), best};
  }
  return {text.size(), ""};
}

TEST(StopMatcher, AgreesWithASearchOfTheWholeTextHoweverItIsCut) {
  std::mt19937 random(7);
  const auto word = [&](size_t longest) {
    std::string text;
    for (size_t i = 1 + random() % longest; i > 0; --i) text.push_back(static_cast<char>('a' + random() % 2));
    return text;
  };
  for (int round = 0; round < 3'000; ++round) {
    std::vector<std::string> stops, parts;
    for (size_t i = 1 + random() % 4; i > 0; --i) stops.push_back(word(6));
    for (size_t i = random() % 6; i > 0; --i) parts.push_back(word(4));
    const auto [cut, stop] = FirstMatch(stops, Join(parts));
    const Result result = Match(stops, parts);
    EXPECT_EQ(Join(result.deltas), Join(parts).substr(0, cut));
    EXPECT_EQ(result.stop, stop);
  }
}

}  // namespace
}  // namespace baton::text_test
