// Long runs: time about linear in the text, bounded stack, cancellation.

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <functional>

#include "tests/unit/text/fixtures.h"

namespace baton::text_test {
namespace {

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double EncodeSeconds(const Tokenizer& tokenizer, const std::string& text) {
  const double begin = ThreadSeconds();
  MustEncode(tokenizer, text);
  return ThreadSeconds() - begin;
}

// Expects that a text four times as long takes less than 2.5 times the CPU time per doubling; quadratic time would take
// 16 times as long. Both are measured in turn, and the best of each counts: neighbours on the machine slow some down.
void ExpectLinear(const Tokenizer& tokenizer, const std::string& text, const std::string& fourfold) {
  double best_text = 1e9, best_fourfold = 1e9;
  for (int i = 0; i < 10 && (i < 2 || best_fourfold >= 2.5 * 2.5 * best_text); ++i) {
    best_text = std::min(best_text, EncodeSeconds(tokenizer, text));
    best_fourfold = std::min(best_fourfold, EncodeSeconds(tokenizer, fourfold));
  }
  EXPECT_LT(best_fourfold, 2.5 * 2.5 * best_text) << text.substr(0, 10);
}

// Runs `body` in a thread with a stack of `bytes`.
void WithStack(size_t bytes, std::function<void()> body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &body), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// A byte-level vocabulary that merges a run of 'a' to powers of two.
TokenizerPtr RunTokenizer() {
  TextAssets assets = GoldenAssets("llama3_style");
  auto json = nlohmann::json::parse(assets.tokenizer_json);
  auto& model = json["model"];
  TokenId next = 5000;
  std::string run = "a";
  while (run.size() < 64) {
    model["merges"].push_back({run, run});
    run += run;
    if (!model["vocab"].contains(run)) model["vocab"][run] = next++;
  }
  assets.tokenizer_json = json.dump();
  return MustCreate(assets);
}

TEST(TokenizerLong, TOK_01_TimeGrowsLinearlyWithARunWithoutWordBorders) {
  const TokenizerPtr tokenizer = RunTokenizer();
  for (const char* unit : {"a", "_", "\u5B57"}) {
    ExpectLinear(*tokenizer, RepeatText(25'000, unit), RepeatText(100'000, unit));
  }
}

TEST(TokenizerLong, TOK_01_RunsMergeAsInTheReference) {
  SKIP_WITHOUT_QWEN();
  const Tokenizer& qwen = *QwenTokenizer();
  EXPECT_EQ(MustEncode(qwen, RepeatText(100'000, "a")), Repeat(12'500, 69440));
  EXPECT_EQ(MustEncode(qwen, RepeatText(50'000, "_")), Concatenate({Repeat(781, 46932), {7686}}));
  EXPECT_EQ(MustEncode(qwen, RepeatText(30'000, "\u5B57")), Repeat(30'000, 18600));
}

TEST(TokenizerLong, TOK_01_CancellationStopsTheEncoding) {
  const TokenizerPtr run = RunTokenizer();
  const TokenizerPtr spaces = GoldenTokenizer("llama2_style");
  const std::string one_piece = RepeatText(1'000'000, "a"), many_pieces = RepeatText(300'000, "a b,1 ");
  for (const auto& [tokenizer, text] :
       {std::pair(run, one_piece), std::pair(run, many_pieces), std::pair(spaces, RepeatText(300'000, " the")),
        std::pair(spaces, many_pieces)}) {
    int polls = 0;
    const auto ids = tokenizer->Encode(text, {.cancelled = [&] { return ++polls == 5; }});
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(polls, 5);
  }
}

TEST(TokenizerLong, TOK_02_ASmallStackIsEnough) {
  for (const char* style : {"llama3_style", "llama2_style", "mistral_style", "added_tokens"}) {
    const TokenizerPtr tokenizer = GoldenTokenizer(style);
    WithStack(256 << 10, [&] {
      for (const std::string& text :
           {RepeatText(43'000, "A"), RepeatText(20'000, "\n"), RepeatText(20'000, " ") + "x",
            RepeatText(5'000, "\n \n \n "), RepeatText(200'000, "us"), RepeatText(50'000, ".")}) {
        // "x" in front, since a Metaspace vocabulary cannot tell a text's own leading space from the one it adds.
        EXPECT_EQ(tokenizer->Decode(MustEncode(*tokenizer, "x" + text)), "x" + text);
      }
    });
  }
}

TEST(TokenizerLong, TOK_02_LongRunsGiveTheIdsOfTheReference) {
  SKIP_WITHOUT_QWEN();
  const TokenizerPtr qwen = QwenTokenizer();
  WithStack(256 << 10, [&] {
    EXPECT_EQ(MustEncode(*qwen, RepeatText(43'000, "A")), Repeat(5'375, 57905));
    EXPECT_EQ(MustEncode(*qwen, RepeatText(20'000, "\n")), Repeat(625, 79083));
    EXPECT_EQ(MustEncode(*qwen, RepeatText(20'000, " ") + "x"), Concatenate({Repeat(156, 56940), {1383, 856}}));
    EXPECT_EQ(MustEncode(*qwen, RepeatText(5'000, "\n \n \n ")), Concatenate({{26809}, Repeat(7'499, 31906), {220}}));
    EXPECT_EQ(MustEncode(*qwen, RepeatText(200'000, "us")), Repeat(200'000, 355));
  });
}

TEST(TokenizerLong, TOK_08_LongRunsOfMarksAreOrderedInLinearTime) {
  const TokenizerPtr tokenizer = GoldenTokenizer("added_tokens");
  const std::string pair = "\u0301\u0323";  // out of order
  ExpectLinear(*tokenizer, "e" + RepeatText(10'000, pair), "e" + RepeatText(40'000, pair));
}

}  // namespace
}  // namespace baton::text_test
