#pragma once

// The tokenizer of models with random weights: a token for every byte, three special ones, then made-up words that only
// a model writes. Any text goes in, byte by byte, and every id that comes out can be read.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace baton::model {

inline constexpr TokenId kByteVocabularyEndOfText = 256, kByteVocabularyStart = 257, kByteVocabularyEnd = 258;
inline constexpr uint32_t kLeastByteVocabulary = 259;

// The tokens as GPT-2 spells bytes; `size` is at least kLeastByteVocabulary and at most 1,000,000.
std::vector<std::string> ByteVocabulary(uint32_t size);

// ChatML.
extern const std::string_view kByteChatTemplate;

// tokenizer.json and tokenizer_config.json.
std::string ByteTokenizerJson(uint32_t size);
std::string ByteTokenizerConfigJson();

}  // namespace baton::model
