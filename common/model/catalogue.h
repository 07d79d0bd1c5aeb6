#pragma once

// The architectures that the one decoder definition covers, and what distinguishes them. A new one is a line here.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton::model {

enum class FileFormat : uint8_t { kSafetensors, kGguf };

// Names of weights in a file format; those of a layer follow `layer_prefix` and the layer's number.
struct TensorNames {
  std::string_view embedding, final_norm, lm_head;
  std::string_view layer_prefix;  // "model.layers."
  std::string_view attention_norm, q, k, v, o, q_bias, k_bias, v_bias, o_bias, q_norm, k_norm;
  std::string_view ffn_norm, gate, up, down;
  std::string_view rope_divisors;     // GGUF only, else empty
  std::string_view precomputed_rope;  // suffix of tensors that old files carry and nobody needs

  std::string Layer(uint32_t layer, std::string_view name) const;  // "model.layers.3.self_attn.q_proj.weight"
};

enum class Bias : uint8_t { kNever, kQkv, kAsConfigured };  // kAsConfigured: on q, k, v and o
enum class Window : uint8_t { kNever, kEveryLayer, kUpperLayers };

struct Architecture {
  FileFormat format;
  std::string_view name;  // config.json architectures[0], or GGUF general.architecture
  Bias bias;
  bool qk_norm;
  Window window;
  uint32_t default_head_dim;  // 0: hidden / heads
  uint32_t default_window;    // where the config does not say
  uint32_t default_positions;
  bool interleaved_rope;  // rows of q and k are stored interleaved (GGUF converter, llama only)
};

std::span<const Architecture> Architectures();

// UNIMPLEMENTED naming `name` and what is supported in this format.
absl::StatusOr<Architecture> FindArchitecture(FileFormat format, std::string_view name);

const TensorNames& NamesOf(FileFormat format);

}  // namespace baton::model
