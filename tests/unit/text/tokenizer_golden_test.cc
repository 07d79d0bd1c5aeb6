// Ids and texts of random strings, as the Hugging Face tokenizers library and SentencePiece made them.

#include "tests/unit/text/fixtures.h"

namespace baton::text_test {
namespace {

void CheckCases(const TokenizerPtr& tokenizer, const nlohmann::json& cases, bool with_texts = true) {
  ASSERT_NE(tokenizer, nullptr);
  ASSERT_GT(cases.size(), 40u);
  for (const auto& entry : cases) {
    const auto text = entry.at("text").get<std::string>();
    const auto ids = entry.at("ids").get<Ids>();
    SCOPED_TRACE(entry.at("text").dump(-1, ' ', /*ensure_ascii=*/true));
    EXPECT_EQ(MustEncode(*tokenizer, text, /*parse_special=*/true), ids);
    EXPECT_EQ(MustEncode(*tokenizer, text), entry.value("plain", ids));
    EXPECT_EQ(Join(Deltas(tokenizer, ids)), tokenizer->Decode(ids));
    if (!with_texts) continue;
    EXPECT_EQ(tokenizer->Decode(ids), entry.value("decoded", text));
    EXPECT_EQ(tokenizer->Decode(ids, {.skip_special_tokens = false}), entry.value("decoded_full", text));
  }
}

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, GivesTheIdsAndTextsOfTheReference) {
  const std::string style = GetParam();
  CheckCases(GoldenTokenizer(style), GoldenJson(style + "/cases.json"), style != "added_tokens");
}

INSTANTIATE_TEST_SUITE_P(Styles, TokenizerGolden,
                         testing::Values("llama3_style", "llama2_style", "mistral_style", "added_tokens"));

TEST(TokenizerGoldenFull, QwenGivesTheIdsAndTextsOfTheReference) {
  SKIP_WITHOUT_QWEN();
  CheckCases(QwenTokenizer(), GoldenJson("qwen3.json"));
}

TEST(TokenizerGoldenFull, SentencePieceScoresGiveTheIdsOfSentencePiece) {
  const nlohmann::json golden = GoldenJson("sentencepiece.json");
  TextAssets assets;
  GgufVocabulary& vocabulary = assets.gguf.emplace();
  vocabulary.model = "llama";
  vocabulary.tokens = golden.at("tokens").get<std::vector<std::string>>();
  vocabulary.scores = golden.at("scores").get<std::vector<float>>();
  vocabulary.types = golden.at("types").get<std::vector<int32_t>>();
  const TokenizerPtr tokenizer = MustCreate(assets);
  ASSERT_NE(tokenizer, nullptr);
  for (const auto& entry : golden.at("cases")) {
    const auto text = entry.at("text").get<std::string>();
    SCOPED_TRACE(entry.at("text").dump(-1, ' ', true));
    EXPECT_EQ(MustEncode(*tokenizer, text), entry.at("ids").get<Ids>());
    EXPECT_EQ(tokenizer->Decode(entry.at("ids").get<Ids>()), text);
  }
}

}  // namespace
}  // namespace baton::text_test
