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

// A model in memory; has no text assets and no files.
std::shared_ptr<const model::Model> MakeRandomModel(const model::ModelConfig& config, uint64_t seed,
                                                    DType dtype = DType::kBF16);

struct RandomModelOptions {
  DType dtype = DType::kBF16;
  int shards = 0;           // 0: one model.safetensors without an index
  bool tokenizer = true;    // tokenizer.json and tokenizer_config.json with a ChatML template
  bool write_head = false;  // lm_head.weight also when tied
};
// config.json, safetensors, tokenizer files; the same weights as MakeRandomModel of this seed. Replaces what is there.
void WriteRandomModel(const std::string& directory, const model::ModelConfig& config, uint64_t seed,
                      const RandomModelOptions& options = {});

// The same weights as a GGUF file. `rope_divisors`, unless empty, become the rope_freqs tensor in place of what
// config.rope would give.
void WriteRandomGguf(const std::string& path, model::ModelConfig config, uint64_t seed, DType dtype = DType::kBF16,
                     const std::vector<float>& rope_divisors = {});

}  // namespace baton::fakes
