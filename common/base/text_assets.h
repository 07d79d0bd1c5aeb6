#pragma once

// What a router needs to turn text into tokens and back for one model, as plain data: read by workers from the model's
// files, sent to routers, consumed by common/text. Exactly one of `tokenizer_json` and `gguf` is set.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"

namespace baton {

// The tokenizer.ggml.* keys of a GGUF file.
struct GgufVocabulary {
  std::string model;                // "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;                  // pre-tokenizer name, e.g. "qwen2", "llama-bpe", "smollm"; empty: "default"
  std::vector<std::string> tokens;  // by id
  std::vector<float> scores;        // "llama" kind; by id, or empty
  std::vector<int32_t> types;       // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; by id, or empty
  std::vector<std::string> merges;  // "gpt2" kind; "left right" in rank order
  std::optional<TokenId> bos_id, eos_id, unknown_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

struct TextAssets {
  std::string tokenizer_json;         // bytes of tokenizer.json
  std::string tokenizer_config_json;  // bytes of tokenizer_config.json; may be empty
  std::optional<GgufVocabulary> gguf;
  std::string
      chat_template;  // Jinja source: chat_template.jinja, tokenizer_config.json or GGUF; empty if the model has none
};

}  // namespace baton
