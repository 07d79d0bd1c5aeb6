// Broken, hostile and unsupported files give a Status.

#include <random>

#include "tests/unit/text/fixtures.h"

namespace baton::text_test {
namespace {

absl::Status CreateStatus(std::string tokenizer_json, std::string config = "") {
  TextAssets assets;
  assets.tokenizer_json = std::move(tokenizer_json);
  assets.tokenizer_config_json = std::move(config);
  return Tokenizer::Create(assets).status();
}

absl::Status StatusAfter(std::string_view style, const std::function<void(nlohmann::json&)>& edit) {
  auto json = nlohmann::json::parse(GoldenAssets(style).tokenizer_json);
  edit(json);
  return CreateStatus(json.dump());
}

void ExpectRefused(const absl::Status& status, std::string_view name) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_NE(StatusMessage(status).find(name), std::string::npos) << status;
}

TEST(TokenizerHostile, TruncatedFilesAreRefused) {
  const std::string whole = GoldenAssets("llama2_style").tokenizer_json;
  for (size_t size = 0; size + 2 < whole.size(); size += 97) {
    EXPECT_EQ(CreateStatus(whole.substr(0, size)).code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(TokenizerHostile, DeepNestingIsRefused) {
  EXPECT_FALSE(CreateStatus(std::string(1'000'000, '[')).ok());
  EXPECT_FALSE(CreateStatus("{\"model\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}").ok());
  for (const auto& [section, list] :
       {std::pair("normalizer", "normalizers"), std::pair("decoder", "decoders"),
        std::pair("pre_tokenizer", "pretokenizers"), std::pair("post_processor", "processors")}) {
    std::string open, close;
    for (int i = 0; i < 10'000; ++i) {
      open += std::string("{\"type\":\"Sequence\",\"") + list + "\":[";
      close += "]}";
    }
    const std::string text = std::string("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"") +
                             section + "\":" + open + close + "}";
    EXPECT_EQ(CreateStatus(text).code(), absl::StatusCode::kInvalidArgument) << section;
  }
}

TEST(TokenizerHostile, WrongTypesAreRefused) {
  // Every value of the file, one at a time, becomes something else: a Status or a tokenizer that still works.
  const auto original = nlohmann::json::parse(GoldenAssets("llama3_style").tokenizer_json);
  const auto flat = original.flatten();
  size_t tried = 0;
  for (const auto& [path, value] : flat.items()) {
    if (path.starts_with("/model/vocab/") || path.starts_with("/model/merges/")) {
      if (++tried % 50 != 0) continue;
    }
    for (const nlohmann::json& wrong :
         {nlohmann::json(nullptr), nlohmann::json(-1), nlohmann::json("x"), nlohmann::json::array(),
          nlohmann::json(1e300), nlohmann::json(UINT64_MAX), nlohmann::json::object()}) {
      auto changed = original;
      changed[nlohmann::json::json_pointer(path)] = wrong;
      TextAssets assets;
      assets.tokenizer_json = changed.dump();
      const auto tokenizer = Tokenizer::Create(assets);
      if (tokenizer.ok()) (void)(*tokenizer)->Encode("a 12 <|eot_id|>", {.parse_special = true});
    }
  }
}

TEST(TokenizerHostile, RandomBytesAreRefusedOrHarmless) {
  const std::string whole = GoldenAssets("added_tokens").tokenizer_json;
  std::mt19937 random(1);
  for (int i = 0; i < 2'000; ++i) {
    std::string changed = whole;
    for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<char>(random());
    TextAssets assets;
    assets.tokenizer_json = changed;
    const auto tokenizer = Tokenizer::Create(assets);
    if (tokenizer.ok()) (void)(*tokenizer)->Encode("word <left> e\u0301x", {.parse_special = true});
  }
}

TEST(TokenizerHostile, HugeAndDoubleIdsAreRefused) {
  for (const int64_t id : {int64_t{-1}, int64_t{1} << 31, int64_t{2147483647}, int64_t{1} << 62}) {
    EXPECT_EQ(StatusAfter("llama3_style", [&](auto& json) { json["model"]["vocab"]["zz"] = id; }).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(StatusAfter("llama3_style", [&](auto& json) { json["added_tokens"][0]["id"] = id; }).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(StatusAfter("llama3_style", [](auto& json) { json["model"]["vocab"]["zz"] = 5; }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateStatus(GoldenAssets("llama3_style").tokenizer_json,
                         R"({"added_tokens_decoder": {"99999999999999999999": {"content": "x"}}})")
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TokenizerHostile, MergesOutsideTheVocabularyAreRefused) {
  const auto status = StatusAfter("llama3_style", [](auto& json) {
    json["model"]["merges"].push_back({"nope", "nope"});
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(StatusMessage(status).find("nope"), std::string::npos) << status;
}

TEST(TokenizerHostile, UnknownComponentsAreRefusedByName) {
  const auto set = [](const char* section, nlohmann::json value) {
    return StatusAfter("llama3_style", [&](nlohmann::json& json) { json[section] = value; });
  };
  ExpectRefused(set("normalizer", {{"type", "BertNormalizer"}}), "BertNormalizer");
  ExpectRefused(set("pre_tokenizer", {{"type", "UnicodeScripts"}}), "UnicodeScripts");
  ExpectRefused(set("decoder", {{"type", "WordPiece"}}), "WordPiece");
  ExpectRefused(set("post_processor", {{"type", "BertProcessing"}}), "BertProcessing");
  ExpectRefused(StatusAfter("llama3_style", [](auto& json) { json["model"]["type"] = "Unigram"; }), "Unigram");
  ExpectRefused(StatusAfter("llama3_style", [](auto& json) { json["model"]["end_of_word_suffix"] = "</w>"; }), "</w>");
  ExpectRefused(StatusAfter("llama3_style", [](auto& json) { json["model"]["dropout"] = 0.1; }), "dropout");
}

TEST(TokenizerHostile, AssetsOfNoneOrBothKindsAreRefused) {
  EXPECT_EQ(Tokenizer::Create({}).status().code(), absl::StatusCode::kInvalidArgument);
  TextAssets both = GoldenAssets("llama3_style");
  both.gguf.emplace();
  EXPECT_EQ(Tokenizer::Create(both).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TokenizerHostile, CatastrophicPatternsEndInAStatus) {
  auto json = nlohmann::json::parse(GoldenAssets("llama3_style").tokenizer_json);
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+$|b";
  TextAssets assets;
  assets.tokenizer_json = json.dump();
  const TokenizerPtr tokenizer = MustCreate(assets);
  EXPECT_EQ(tokenizer->Encode(RepeatText(5'000, "a") + "!").status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(TokenizerHostile, ATextThatTheVocabularyCannotSpellIsRefused) {
  TextAssets assets;
  assets.tokenizer_json = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";
  const TokenizerPtr tokenizer = MustCreate(assets);
  EXPECT_EQ(MustEncode(*tokenizer, "abba"), (Ids{2, 1, 0}));
  EXPECT_EQ(tokenizer->Encode("abc").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::text_test
