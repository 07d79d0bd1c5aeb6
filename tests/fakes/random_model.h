#pragma once

// Small random models for tests of engines and services, in memory or as files.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/model/model.h"

namespace baton::fakes {

// 2 layers, hidden 64, 4 heads, 2 kv heads of 16, feed-forward 128, vocabulary 320, 512 positions, tied head; with what
// `architecture` ("Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM") adds.
model::ModelConfig TinyConfig(const std::string& architecture = "Qwen2ForCausalLM");

// The shape of Qwen2.5-0.5B: 494,032,768 parameters.
model::ModelConfig Qwen25Config();

// config.json as transformers 4 writes it. `omit_head_dim` leaves it to be derived.
std::string ConfigJson(const model::ModelConfig& config, bool omit_head_dim = false);

// A model in memory; has no text assets and no files.
std::shared_ptr<const model::Model> MakeRandomModel(const model::ModelConfig& config, uint64_t seed,
                                                    DType dtype = DType::kBF16);

struct RandomModelOptions {
  DType dtype = DType::kBF16;
  int shards = 0;           // 0: one model.safetensors without an index
  bool tokenizer = true;    // tokenizer.json and tokenizer_config.json with a ChatML template
  bool write_head = false;  // lm_head.weight also when tied
};
// config.json, safetensors, tokenizer files; the same weights as MakeRandomModel of this seed.
void WriteRandomModel(const std::string& directory, const model::ModelConfig& config, uint64_t seed,
                      const RandomModelOptions& options = {});

// The same weights as a GGUF file; rows of q and k interleaved as the converter does for the llama architecture.
// `rope_divisors`, unless empty, become the rope_freqs tensor; config.rope's scaling is not written otherwise.
void WriteRandomGguf(const std::string& path, const model::ModelConfig& config, uint64_t seed,
                     DType dtype = DType::kBF16, const std::vector<float>& rope_divisors = {});

// A byte-level BPE without merges: ids 0-255 are bytes, then <|endoftext|> 256, <|im_start|> 257, <|im_end|> 258.
std::string ByteTokenizerJson();
std::string ByteTokenizerConfigJson();
std::vector<std::string> ByteVocabulary();

}  // namespace baton::fakes
