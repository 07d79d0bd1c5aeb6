// Rules of the tokenizer on small vocabularies. Ids of random text are in tokenizer_golden_test.

#include <thread>

#include "tests/unit/text/fixtures.h"

namespace baton::text_test {
namespace {

std::vector<std::string> Spellings(const Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> spellings;
  for (const TokenId id : ids) spellings.emplace_back(tokenizer.TokenText(id));
  return spellings;
}

std::vector<std::string> Pieces(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
  return Spellings(tokenizer, MustEncode(tokenizer, text, parse_special));
}

TokenizerPtr Edited(std::string_view style, const std::function<void(nlohmann::json&)>& edit) {
  TextAssets assets = GoldenAssets(style);
  auto json = nlohmann::json::parse(assets.tokenizer_json);
  edit(json);
  assets.tokenizer_json = json.dump();
  return MustCreate(assets);
}

TEST(Tokenizer, TOK_03_PatternComesFromTheFile) {
  // The same vocabulary: only where merges may not cross differs.
  const auto with_pattern = [](const char* pattern) {
    return Edited("llama3_style", [&](nlohmann::json& json) {
      json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern;
    });
  };
  EXPECT_EQ(Pieces(*with_pattern(R"([\s\p{L}]+)"), "def encode"), (std::vector<std::string>{"def", "Ġen", "code"}));
  EXPECT_EQ(Pieces(*with_pattern("def e|.+"), "def encode"), (std::vector<std::string>{"def", "Ġ", "e", "n", "code"}));
}

TEST(Tokenizer, TOK_04_DigitsAreGroupedInThreesFromTheLeft) {
  // The pattern of Llama-3; "123", "456" and "7" may only merge within themselves.
  const TokenizerPtr tokenizer = Edited("llama3_style", [](nlohmann::json& json) {
    auto& vocab = json["model"]["vocab"];
    TokenId next = 2000;
    for (const char* token : {"12", "123", "45", "456", "1234", "34", "67", "567", "333", "777"}) {
      if (!vocab.contains(token)) vocab[token] = next++;
    }
  });
  EXPECT_EQ(Pieces(*tokenizer, "1234567"), (std::vector<std::string>{"123", "456", "7"}));
  EXPECT_EQ(Pieces(*tokenizer, "3333+777"), (std::vector<std::string>{"333", "3", "+", "777"}));
}

TEST(Tokenizer, TOK_05_IgnoreMergesTakesAVocabularyEntryWhole) {
  const auto with_flag = [](bool ignore_merges) {
    return Edited("llama3_style", [&](nlohmann::json& json) { json["model"]["ignore_merges"] = ignore_merges; });
  };
  // In the fixture's vocabulary, but no merge leads to it.
  const std::string text = " Vi\u1EC7t";
  const TokenizerPtr whole = with_flag(true);
  const Ids ids = MustEncode(*whole, text);
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(whole->TokenBytes(ids[0]), text);
  const TokenizerPtr merged = with_flag(false);
  EXPECT_GT(MustEncode(*merged, text).size(), 1u);
  EXPECT_EQ(merged->Decode(MustEncode(*merged, text)), text);
}

TEST(Tokenizer, TOK_08_WithoutANormalizerTextStaysAsItIs) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama3_style");
  for (const std::string text : {"e\u0301", "\u1112\u1161\u11AB", "\u212B"}) {
    EXPECT_EQ(tokenizer->Decode(MustEncode(*tokenizer, text)), text);
  }
}

TEST(Tokenizer, TOK_09_ControlTokensAreReadInTrustedTextOnly) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama3_style");
  const TokenId eot = *tokenizer->TokenToId("<|eot_id|>");
  const auto count = [&](const std::vector<TextSegment>& segments) {
    const auto ids = tokenizer->EncodeSegments(segments, {.add_special_tokens = false});
    EXPECT_TRUE(ids.ok()) << ids.status();
    return std::count(ids->begin(), ids->end(), eot);
  };
  EXPECT_EQ(count({{"a<|eot_id|>", true}}), 1);
  EXPECT_EQ(count({{"a<|eot_id|>", false}}), 0);
  EXPECT_EQ(count({{"a<|eot_id|>", false}, {"<|eot_id|>", true}}), 1);
  EXPECT_EQ(count({{"<|eot", true}, {"_id|>", true}}), 1);               // both halves the template's
  EXPECT_EQ(count({{"<|eot", true}, {"_id|>", false}}), 0);              // half a user's
  EXPECT_EQ(count({{"<|", false}, {"eot_id|>", true}}), 0);              // the other half
  EXPECT_EQ(count({{"<|eot", true}, {"", false}, {"_id|>", true}}), 1);  // an empty segment is no border
  EXPECT_EQ(count({{"<|eot_", true}, {"<|eot_id|>", false}, {"id|>", true}}), 0);
}

TEST(Tokenizer, TOK_09_AllTrustedOrAllUntrustedIsAsOneText) {
  for (const char* style : {"llama3_style", "llama2_style", "mistral_style", "added_tokens"}) {
    const TokenizerPtr tokenizer = GoldenTokenizer(style);
    for (const auto& entry : GoldenJson(std::string(style) + "/cases.json")) {
      const auto text = entry.at("text").get<std::string>();
      size_t middle = text.size() / 2;
      while (middle > 0 && (text[middle] & 0xC0) == 0x80) --middle;
      for (const bool trusted : {true, false}) {
        const std::vector<TextSegment> halves = {{text.substr(0, middle), trusted}, {text.substr(middle), trusted}};
        const auto ids = tokenizer->EncodeSegments(halves, {.add_special_tokens = false});
        ASSERT_TRUE(ids.ok()) << ids.status();
        EXPECT_EQ(*ids, MustEncode(*tokenizer, text, trusted));
      }
    }
  }
}

TEST(Tokenizer, TOK_09_MergesCannotSpellAControlToken) {
  // The vocabulary has "<s>" as a control token, and merges that lead to it.
  const TokenizerPtr tokenizer = Edited("llama2_style", [](nlohmann::json& json) {
    auto& model = json["model"];
    TokenId next = 3000;
    for (const char* piece : {"<", "s", ">", "<s"}) {
      if (!model["vocab"].contains(piece)) model["vocab"][piece] = next++;
    }
    model["merges"].insert(model["merges"].begin(), {nlohmann::json{"<", "s"}, nlohmann::json{"<s", ">"}});
  });
  EXPECT_EQ(Pieces(*tokenizer, "a<s>"), (std::vector<std::string>{"▁a", "<s", ">"}));
  EXPECT_EQ(Pieces(*tokenizer, "a<s>", true), (std::vector<std::string>{"▁a", "<s>"}));
}

TEST(Tokenizer, TOK_12_PrependNormalizerPutsASpaceAfterEveryControlToken) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama2_style");
  EXPECT_EQ(Pieces(*tokenizer, "a:<s>a", true), (std::vector<std::string>{"▁a", ":", "<s>", "▁a"}));
}

TEST(Tokenizer, TOK_12_MetaspaceFirstPutsASpaceAtTheStartOnly) {
  const TokenizerPtr tokenizer = GoldenTokenizer("mistral_style");
  EXPECT_EQ(Pieces(*tokenizer, "a:<s>a", true), (std::vector<std::string>{"▁a", ":", "<s>", "a"}));
}

TEST(Tokenizer, TOK_12_CharactersOutsideTheVocabularyBecomeBytes) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama2_style");
  EXPECT_EQ(Pieces(*tokenizer, "\u6B6A"), (std::vector<std::string>{"▁", "<0xE6>", "<0xAD>", "<0xAA>"}));
  EXPECT_EQ(tokenizer->Decode(MustEncode(*tokenizer, "\u6B6A")), "\u6B6A");
}

TEST(Tokenizer, TOK_12_OneLeadingSpaceIsDroppedAtTheVeryStart) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama2_style");
  const TokenId a = *tokenizer->TokenToId("▁a");
  EXPECT_EQ(tokenizer->Decode(Ids{a}), "a");
  EXPECT_EQ(tokenizer->Decode(Ids{a, a}), "a a");
  EXPECT_EQ(tokenizer->Decode(Ids{a}, {.strip_leading_space = false}), " a");
  EXPECT_EQ(tokenizer->Decode(Ids{1, a}), "a");  // the control token is skipped
  EXPECT_EQ(tokenizer->Decode(MustEncode(*tokenizer, "  two")), "  two");
}

TEST(Tokenizer, TOK_13_InvalidUtf8IsRefusedWithItsOffset) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama3_style");
  const std::vector<std::string> bad = {"\xE2\x80", "\xE6\xAD", "\xFF", "\xC4\xE3\xBA\xC3", "\xED\xA0\x80", "\xC0\xAF"};
  for (const std::string& bytes : bad) {
    const auto plain = tokenizer->Encode("ab" + bytes);
    EXPECT_EQ(plain.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(StatusMessage(plain.status()).find("byte 2"), std::string::npos) << plain.status();
    const std::vector<TextSegment> segments = {{"ab", true}, {bytes, false}};
    EXPECT_EQ(tokenizer->EncodeSegments(segments, {}).status().code(), absl::StatusCode::kInvalidArgument);
  }
  const std::string zero("a\0b", 3);
  EXPECT_EQ(tokenizer->Decode(MustEncode(*tokenizer, zero)), zero);
}

TEST(Tokenizer, TPL_09_PlainCompletionsStartWithOneBos) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama3_style");
  const TokenId bos = *tokenizer->bos_id();
  const auto bos_count = [&](const Ids& ids) { return std::count(ids.begin(), ids.end(), bos); };
  const Ids plain = MustEncode(*tokenizer, "hello", false, true);
  EXPECT_EQ(plain.front(), bos);
  EXPECT_EQ(bos_count(plain), 1);
  // A prompt that was rendered before, with its control tokens read, has its BOS already.
  const Ids rendered = MustEncode(*tokenizer, "<|begin_of_text|><|start_header_id|>user", true, true);
  EXPECT_EQ(rendered.front(), bos);
  EXPECT_EQ(bos_count(rendered), 1);
  // Written by a user it is text.
  EXPECT_EQ(bos_count(MustEncode(*tokenizer, "<|begin_of_text|>hi", false, true)), 1);
  EXPECT_EQ(bos_count(MustEncode(*tokenizer, "hello", false, false)), 0);
}

TEST(Tokenizer, TPL_09_RenderedTemplatesKeepTheirOneBos) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama3_style");
  const std::vector<TextSegment> chat = {{"<|begin_of_text|><|start_header_id|>", true}, {"hi", false}};
  for (const bool add : {false, true}) {
    const auto ids = tokenizer->EncodeSegments(chat, {.add_special_tokens = add});
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(std::count(ids->begin(), ids->end(), *tokenizer->bos_id()), 1);
    EXPECT_EQ(ids->front(), *tokenizer->bos_id());
  }
}

TEST(Tokenizer, TPL_09_AddBosTokenOfTheConfigHasTheLastWord) {
  TextAssets assets = GoldenAssets("llama2_style");
  const auto first = [&](const char* config) {
    assets.tokenizer_config_json = config;
    const TokenizerPtr tokenizer = MustCreate(assets);
    return MustEncode(*tokenizer, "a", false, true);
  };
  const TokenId a = *GoldenTokenizer("llama2_style")->TokenToId("▁a");
  EXPECT_EQ(first(R"({"bos_token": "<s>", "add_bos_token": false})"), (Ids{a}));
  EXPECT_EQ(first(R"({"bos_token": "<s>", "add_bos_token": true})"), (Ids{1, a}));
  EXPECT_EQ(first(R"({"bos_token": {"content": "<s>"}})"), (Ids{1, a}));
  EXPECT_EQ(first(R"({"bos_token": "<s>", "eos_token": "</s>", "add_eos_token": true})"), (Ids{1, a, 2}));
  EXPECT_EQ(first(""), (Ids{1, a}));
}

TEST(Tokenizer, ConfigMayAddTokensAndFlags) {
  TextAssets assets = GoldenAssets("llama3_style");
  assets.tokenizer_config_json =
      R"({"added_tokens_decoder": {"700": {"content": "<new>", "special": true, "rstrip": true}}, "eos_token": "<new>"})";
  const TokenizerPtr tokenizer = MustCreate(assets);
  EXPECT_TRUE(tokenizer->IsSpecial(700));
  EXPECT_EQ(tokenizer->eos_id(), 700);
  EXPECT_EQ(tokenizer->vocab_size(), 701);
  EXPECT_EQ(tokenizer->TokenText(699), "");
  EXPECT_EQ(tokenizer->Decode(MustEncode(*tokenizer, "a<new>  b", true)), "ab");
}

TEST(Tokenizer, TokenBytesOfEveryIdSpellTheText) {
  for (const char* style : {"llama3_style", "llama2_style"}) {
    const TokenizerPtr tokenizer = GoldenTokenizer(style);
    std::string bytes;
    for (const TokenId id : MustEncode(*tokenizer, "Tiếng Việt 123\n")) bytes += tokenizer->TokenBytes(id);
    EXPECT_EQ(bytes, std::string(tokenizer->DropsLeadingSpace() ? " " : "") + "Tiếng Việt 123\n");
  }
}

TEST(Tokenizer, ThreadsShareOne) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama3_style");
  const std::string text = RepeatText(200, "Tiếng Việt 123, don't <|eot_id|>\n");
  const Ids expected = MustEncode(*tokenizer, text, true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      EXPECT_EQ(MustEncode(*tokenizer, text, true), expected);
      EXPECT_EQ(tokenizer->Decode(expected, {.skip_special_tokens = false}), text);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizer, UnknownIdsDecodeToNothing) {
  const TokenizerPtr tokenizer = GoldenTokenizer("llama3_style");
  EXPECT_EQ(tokenizer->Decode(Ids{-1, 1 << 30, tokenizer->vocab_size()}), "");
  EXPECT_FALSE(tokenizer->IsSpecial(-1));
  EXPECT_EQ(tokenizer->TokenToId("no such token"), std::nullopt);
}

}  // namespace
}  // namespace baton::text_test
