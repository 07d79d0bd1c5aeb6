#include "tests/unit/text/fixtures.h"

namespace baton::text_test {
namespace {

// 'a', 'b' and bytes as ids 0 to 255 of the byte alphabet, with "llama-bpe", "smollm" or "qwen2" rules.
TextAssets ByteLevelAssets(const std::string& pre) {
  TextAssets assets;
  const TokenizerPtr bytes = ByteLevelTokenizer({});
  GgufVocabulary& vocabulary = assets.gguf.emplace();
  vocabulary.model = "gpt2";
  vocabulary.pre = pre;
  for (TokenId id = 0; id < 256; ++id) vocabulary.tokens.emplace_back(bytes->TokenText(id));
  vocabulary.types.assign(256, 1);
  return assets;
}

void AddToken(GgufVocabulary* vocabulary, const std::string& spelling, int32_t type) {
  vocabulary->tokens.push_back(spelling);
  vocabulary->types.push_back(type);
}

Ids Encoded(const TextAssets& assets, std::string_view text, bool parse_special = false, bool add_special = false) {
  return MustEncode(*MustCreate(assets), text, parse_special, add_special);
}

TEST(GgufVocabulary, TOK_04_PreTokenizerNameDecidesHowDigitsAreGrouped) {
  const auto encode = [](const char* pre) {
    TextAssets assets = ByteLevelAssets(pre);
    AddToken(&*assets.gguf, "12", 1);
    AddToken(&*assets.gguf, "123", 1);
    AddToken(&*assets.gguf, "34", 1);
    AddToken(&*assets.gguf, "1234", 1);
    assets.gguf->merges = {"1 2", "12 3", "3 4", "12 34"};
    return Encoded(assets, "1234");
  };
  EXPECT_EQ(encode("smollm"), (Ids{'1', '2', '3', '4'}));
  EXPECT_EQ(encode("qwen2"), (Ids{'1', '2', '3', '4'}));
  EXPECT_EQ(encode("llama-bpe"), (Ids{257, '4'}));
  EXPECT_EQ(encode("gpt-2"), (Ids{257, '4'}));  // one piece; merge 1 makes "123" before merge 3 can
  EXPECT_EQ(encode(""), encode("default"));
}

TEST(GgufVocabulary, TOK_05_LlamaBpeTakesAVocabularyEntryWhole) {
  for (const auto& [pre, ids] : {std::pair("llama-bpe", Ids{256}), std::pair("qwen2", Ids{'a', 'b', 'c'})}) {
    TextAssets assets = ByteLevelAssets(pre);
    AddToken(&*assets.gguf, "abc", 1);
    EXPECT_EQ(Encoded(assets, "abc"), ids) << pre;
  }
}

TEST(GgufVocabulary, TOK_08_Qwen2IsComposedAsItsOriginalIs) {
  EXPECT_EQ(Encoded(ByteLevelAssets("qwen2"), "e\u0301"), (Ids{0xC3, 0xA9}));
  EXPECT_EQ(Encoded(ByteLevelAssets("llama-bpe"), "e\u0301"), (Ids{'e', 0xCC, 0x81}));
}

TEST(GgufVocabulary, TOK_09_ControlTokensNeedParseSpecialAndUserDefinedOnesDoNot) {
  TextAssets assets = ByteLevelAssets("qwen2");
  AddToken(&*assets.gguf, "<|im_end|>", 3);
  AddToken(&*assets.gguf, "<think>", 4);
  EXPECT_EQ(Encoded(assets, "<think>"), (Ids{257}));
  EXPECT_EQ(Encoded(assets, "<|im_end|>").size(), 10u);
  EXPECT_EQ(Encoded(assets, "<|im_end|>", true), (Ids{256}));
  const TokenizerPtr tokenizer = MustCreate(assets);
  EXPECT_TRUE(tokenizer->IsSpecial(256));
  EXPECT_FALSE(tokenizer->IsSpecial(257));
}

TEST(GgufVocabulary, UnknownNamesAreRefused) {
  for (const auto& [model, pre] : {std::pair("gpt2", "no-such-pre"), std::pair("no-such-model", "")}) {
    TextAssets assets = ByteLevelAssets(pre);
    assets.gguf->model = model;
    const auto status = Tokenizer::Create(assets).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(StatusMessage(status).find("no-such"), std::string::npos) << status;
  }
}

TEST(GgufVocabulary, TPL_09_AddBosTrueFalseAndAbsent) {
  const auto first = [](TextAssets assets, std::optional<bool> add_bos) {
    assets.gguf->bos_id = 1;
    assets.gguf->add_bos = add_bos;
    return Encoded(assets, "a", false, true).front() == 1;
  };
  EXPECT_TRUE(first(ByteLevelAssets("llama-bpe"), true));
  EXPECT_FALSE(first(ByteLevelAssets("llama-bpe"), false));
  EXPECT_TRUE(first(ByteLevelAssets("llama-bpe"), std::nullopt));
  EXPECT_FALSE(first(ByteLevelAssets("qwen2"), std::nullopt));
  EXPECT_TRUE(first(ByteLevelAssets("qwen2"), true));
  EXPECT_EQ(MustEncode(*SentencePieceTokenizer({"▁a"}), "a", false, true), (Ids{1, 259}));
}

TEST(GgufVocabulary, TOK_12_SentencePiecePutsASpaceInFrontAndSpellsUnknownCharactersInBytes) {
  const TokenizerPtr tokenizer = SentencePieceTokenizer({"▁", "a", ":", "▁a"});
  EXPECT_EQ(MustEncode(*tokenizer, "a:<s>a", true), (Ids{262, 261, 1, 262}));
  EXPECT_EQ(MustEncode(*tokenizer, "\u6B6A"), (Ids{259, 3 + 0xE6, 3 + 0xAD, 3 + 0xAA}));
  EXPECT_EQ(tokenizer->Decode(MustEncode(*tokenizer, "a a")), "a a");
}

TEST(GgufVocabulary, SentencePieceMergesTheHighestScoreFirst) {
  // "abc": a+bc or ab+c, by score.
  EXPECT_EQ(MustEncode(*SentencePieceTokenizer({"▁", "a", "b", "c", "bc", "ab"}), "abc"), (Ids{259, 260, 263}));
  EXPECT_EQ(MustEncode(*SentencePieceTokenizer({"▁", "a", "b", "c", "ab", "bc"}), "abc"), (Ids{259, 263, 262}));
}

TEST(GgufVocabulary, ContradictoryListsAreRefused) {
  const auto status = [](const std::function<void(GgufVocabulary&)>& edit) {
    TextAssets assets = ByteLevelAssets("gpt-2");
    edit(*assets.gguf);
    return Tokenizer::Create(assets).status().code();
  };
  EXPECT_EQ(status([](auto& v) { v.types.pop_back(); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status([](auto& v) { v.scores = {1}; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status([](auto& v) { v.tokens.clear(); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status([](auto& v) { v.merges = {"a"}; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status([](auto& v) { v.merges = {""}; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status([](auto& v) { v.merges = {"a b"}; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status([](auto& v) { v.tokens[7] = "\xFF"; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status([](auto& v) { v.bos_id = 256; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status([](auto& v) { v.eos_id = -1; }), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::text_test
