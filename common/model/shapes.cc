#include "common/model/shapes.h"

#include <array>
#include <string>

#include "common/base/status.h"
#include "common/model/byte_vocabulary.h"

namespace baton::model {
namespace {

struct Shape {
  std::string_view name, architecture;
  uint32_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocab, positions;
  double rope_theta;
  float rms_norm_eps;
  bool tied_head;
};

// From the config.json of each model on the Hugging Face hub.
constexpr std::array kShapes = {
    Shape{"tiny", "Qwen2ForCausalLM", 2, 64, 4, 2, 16, 128, 320, 8192, 1e4, 1e-6f, true},
    Shape{"smollm2-135m", "LlamaForCausalLM", 30, 576, 9, 3, 64, 1536, 49152, 8192, 1e5, 1e-5f, true},
    Shape{"qwen2.5-0.5b", "Qwen2ForCausalLM", 24, 896, 14, 2, 64, 4864, 151936, 32768, 1e6, 1e-6f, true},
    Shape{"qwen3-0.6b", "Qwen3ForCausalLM", 28, 1024, 16, 8, 128, 3072, 151936, 40960, 1e6, 1e-6f, true},
    Shape{"llama-3.2-1b", "LlamaForCausalLM", 16, 2048, 32, 8, 64, 8192, 128256, 131072, 5e5, 1e-5f, true},
    Shape{"qwen2.5-1.5b", "Qwen2ForCausalLM", 28, 1536, 12, 2, 128, 8960, 151936, 32768, 1e6, 1e-6f, true},
    Shape{"qwen2.5-7b", "Qwen2ForCausalLM", 28, 3584, 28, 4, 128, 18944, 152064, 32768, 1e6, 1e-6f, false},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kShapes.size()> names;
  for (size_t i = 0; i < kShapes.size(); ++i) names[i] = kShapes[i].name;
  return names;
}();

ModelConfig ConfigOf(const Shape& shape) {
  ModelConfig config;
  config.architecture = shape.architecture;
  config.layers = shape.layers;
  config.hidden = shape.hidden;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.intermediate = shape.intermediate;
  config.vocab = shape.vocab;
  config.max_position_embeddings = config.max_length = shape.positions;
  config.rms_norm_eps = shape.rms_norm_eps;
  config.qkv_bias = shape.architecture == "Qwen2ForCausalLM";
  config.qk_norm = shape.architecture == "Qwen3ForCausalLM";
  config.tied_head = shape.tied_head;
  config.windows.assign(shape.layers, 0);
  config.rope.theta = shape.rope_theta;
  if (shape.name == "llama-3.2-1b") {
    config.rope.kind = RopeKind::kLlama3;
    config.rope.factor = 32;
    config.rope.original_max_position_embeddings = 8192;
  }
  config.eos_ids = {kByteVocabularyEnd};
  return config;
}

}  // namespace

std::span<const std::string_view> ShapeNames() { return kNames; }

absl::StatusOr<ModelConfig> FindShape(std::string_view name) {
  std::string names;
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return ConfigOf(shape);
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return NotFound("there is no shape '%s'; known are %s", name, names);
}

}  // namespace baton::model
