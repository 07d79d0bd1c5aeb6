#include "tests/unit/text/fixtures.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/text/byte_alphabet.h"
#include "common/text/utf8.h"

namespace baton::text_test {
namespace {

std::string Spell(std::string_view bytes) {
  std::string spelling;
  for (const char c : bytes) AppendUtf8(SpellByte(static_cast<uint8_t>(c)), &spelling);
  return spelling;
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

std::string GoldenFile(std::string_view name) {
  return ReadFile(std::string(BATON_SOURCE_DIR) + "/tests/golden/text/" + std::string(name));
}

nlohmann::json GoldenJson(std::string_view name) { return nlohmann::json::parse(GoldenFile(name)); }

TextAssets GoldenAssets(std::string_view style) {
  TextAssets assets;
  assets.tokenizer_json = GoldenFile(std::string(style) + "/tokenizer.json");
  assets.tokenizer_config_json = GoldenFile(std::string(style) + "/tokenizer_config.json");
  return assets;
}

TokenizerPtr MustCreate(const TextAssets& assets) {
  auto tokenizer = Tokenizer::Create(assets);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

TokenizerPtr GoldenTokenizer(std::string_view style) { return MustCreate(GoldenAssets(style)); }

std::optional<TextAssets> QwenAssets() {
  const char* folder = std::getenv("BATON_TEST_DATA");
  if (folder == nullptr) return std::nullopt;
  TextAssets assets;
  assets.tokenizer_json = ReadFile(std::string(folder) + "/qwen3/tokenizer.json");
  assets.tokenizer_config_json = ReadFile(std::string(folder) + "/qwen3/tokenizer_config.json");
  return assets;
}

TokenizerPtr QwenTokenizer() {
  // Loading takes half a second; it is the same for every test of this process.
  static const TokenizerPtr tokenizer = [] {
    const auto assets = QwenAssets();
    return assets ? MustCreate(*assets) : nullptr;
  }();
  return tokenizer;
}

TokenizerPtr ByteLevelTokenizer(const std::vector<std::string>& words, const std::vector<std::string>& control) {
  TextAssets assets;
  GgufVocabulary& vocabulary = assets.gguf.emplace();
  vocabulary.model = "gpt2";
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.push_back(Spell(std::string(1, static_cast<char>(byte))));
  for (const std::string& word : words) vocabulary.tokens.push_back(Spell(word));
  vocabulary.types.assign(vocabulary.tokens.size(), 1);
  for (const std::string& token : control) {
    vocabulary.tokens.push_back(token);
    vocabulary.types.push_back(3);
  }
  return MustCreate(assets);
}

TokenizerPtr SentencePieceTokenizer(const std::vector<std::string>& pieces) {
  TextAssets assets;
  GgufVocabulary& vocabulary = assets.gguf.emplace();
  vocabulary.model = "llama";
  vocabulary.tokens = {"<unk>", "<s>", "</s>"};
  vocabulary.types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(absl::StrFormat("<0x%02X>", byte));
    vocabulary.types.push_back(6);
  }
  vocabulary.scores.assign(vocabulary.tokens.size(), 0);
  for (const std::string& piece : pieces) {
    vocabulary.scores.push_back(-static_cast<float>(vocabulary.tokens.size()));
    vocabulary.tokens.push_back(piece);
    vocabulary.types.push_back(1);
  }
  vocabulary.bos_id = 1;
  vocabulary.eos_id = 2;
  return MustCreate(assets);
}

Ids MustEncode(const Tokenizer& tokenizer, std::string_view text, bool parse_special, bool add_special) {
  auto ids = tokenizer.Encode(text, {.add_special_tokens = add_special, .parse_special = parse_special});
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : Ids();
}

std::vector<std::string> Deltas(const TokenizerPtr& tokenizer, const Ids& ids, const DecodeOptions& options) {
  Detokenizer detokenizer(tokenizer, options);
  std::vector<std::string> deltas;
  for (const TokenId id : ids) deltas.push_back(detokenizer.Add(id));
  deltas.push_back(detokenizer.Finish());
  return deltas;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

Ids Repeat(size_t count, TokenId id) { return Ids(count, id); }

Ids Concatenate(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::string RepeatText(size_t count, std::string_view text) {
  std::string all;
  all.reserve(count * text.size());
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::shared_ptr<const StopStrings> Stops(std::vector<std::string> stops) {
  auto compiled = StopStrings::Create(std::move(stops));
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return compiled.ok() ? *compiled : nullptr;
}

}  // namespace baton::text_test
