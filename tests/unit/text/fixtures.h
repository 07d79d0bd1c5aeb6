#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/text_assets.h"
#include "common/text/output_text.h"
#include "common/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace baton::text_test {

using Ids = std::vector<TokenId>;
using TokenizerPtr = std::shared_ptr<const Tokenizer>;

std::string ReadFile(const std::string& path);
// tests/golden/text/<name>
std::string GoldenFile(std::string_view name);
nlohmann::json GoldenJson(std::string_view name);

// tests/golden/text/<style>/tokenizer.json and tokenizer_config.json.
TextAssets GoldenAssets(std::string_view style);
TokenizerPtr MustCreate(const TextAssets& assets);
TokenizerPtr GoldenTokenizer(std::string_view style);

// The Qwen3 vocabulary under BATON_TEST_DATA; null if that is not set.
TokenizerPtr QwenTokenizer();
std::optional<TextAssets> QwenAssets();
#define SKIP_WITHOUT_QWEN() \
  if (QwenTokenizer() == nullptr) GTEST_SKIP() << "set BATON_TEST_DATA to the folder that holds qwen3/"

// A byte-level vocabulary whose ids 0 to 255 are the single bytes; `words` follow from 256 on, `control` after those.
TokenizerPtr ByteLevelTokenizer(const std::vector<std::string>& words, const std::vector<std::string>& control = {});
// A SentencePiece vocabulary: <unk> <s> </s>, 256 bytes, then `pieces` (spelled with U+2581), from id 259 on.
TokenizerPtr SentencePieceTokenizer(const std::vector<std::string>& pieces);

// Ids of `text` with no token added; control tokens read only if `parse_special`.
Ids MustEncode(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false, bool add_special = false);
// The deltas of a Detokenizer, Finish included.
std::vector<std::string> Deltas(const TokenizerPtr& tokenizer, const Ids& ids, const DecodeOptions& options = {});
std::string Join(const std::vector<std::string>& parts);
Ids Repeat(size_t count, TokenId id);
Ids Concatenate(std::initializer_list<Ids> parts);
std::string RepeatText(size_t count, std::string_view text);

std::shared_ptr<const StopStrings> Stops(std::vector<std::string> stops);

}  // namespace baton::text_test
