#pragma once

// What the one decoder definition needs to know about a model, as plain values. Written by the parsers of config.json
// and of GGUF metadata, which refuse what the decoder cannot do; read by everyone else.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/dtype.h"
#include "common/base/ids.h"

namespace baton::model {

enum class RopeKind : uint8_t { kPlain, kLinear, kLlama3, kYarn };
std::string_view RopeKindName(RopeKind kind);

struct RopeConfig {
  RopeKind kind = RopeKind::kPlain;
  double theta = 10000;
  double factor = 1;
  uint32_t original_max_position_embeddings = 0;     // llama3, yarn
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  bool truncate = true;                              // yarn: round the borders of the ramp to whole dimensions
  std::optional<double> attention_factor, mscale, mscale_all_dim;  // yarn
  std::vector<float> frequency_divisors;                           // GGUF rope_freqs tensor: [head_dim / 2], or empty
};

// generation_config.json: what holds where a request says nothing. Absent values were not in the file.
// `do_sample: false` arrives here as temperature 0.
struct GenerationDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;
};

// A decoder block of every model: x += o(attention(norm(x))), x += down(silu(gate(norm(x))) * up(norm(x))). RMS norms,
// rotate-half rope (element i pairs with i + head_dim / 2), softmax scale 1 / sqrt(head_dim).
struct ModelConfig {
  std::string architecture;  // as the file spells it: "Qwen2ForCausalLM", "llama"
  uint32_t layers = 0;
  uint32_t hidden = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;  // divides heads
  uint32_t head_dim = 0;  // even; heads * head_dim may differ from hidden
  uint32_t intermediate = 0;
  uint32_t vocab = 0;
  uint32_t max_position_embeddings = 0;  // as in the file
  uint32_t max_length = 0;               // positions the model can use with its rope scaling
  float rms_norm_eps = 1e-6f;
  bool qkv_bias = false;  // biases on q, k and v
  bool o_bias = false;
  bool qk_norm = false;  // RMS norm of every head of q and k, before rope
  bool tied_head = false;
  std::vector<uint32_t> windows;  // per layer; 0: full attention; W: position p sees keys in (p - W, p]
  RopeConfig rope;
  std::optional<TokenId> bos_id;
  std::vector<TokenId> eos_ids;  // every id that ends an answer, from all files, ascending
  GenerationDefaults generation;
  DType dtype = DType::kBF16;  // of most weights, by bytes

  uint32_t q_rows() const { return heads * head_dim; }
  uint32_t kv_rows() const { return kv_heads * head_dim; }
};

}  // namespace baton::model
