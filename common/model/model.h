#pragma once

// A model ready to be packed by a runner: checked config, one view per weight, rope table, text assets.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/hash.h"
#include "common/base/text_assets.h"
#include "common/model/model_config.h"
#include "common/model/rope.h"
#include "common/model/tensor_view.h"

namespace baton::model {

struct LayerWeights {
  TensorView attention_norm;                         // [1, hidden]
  TensorView q;                                      // [heads * head_dim, hidden]
  TensorView k, v;                                   // [kv_heads * head_dim, hidden]
  TensorView o;                                      // [hidden, heads * head_dim]
  std::optional<TensorView> q_bias, k_bias, v_bias;  // [1, rows of q, k, v]; all or none
  std::optional<TensorView> o_bias;                  // [1, hidden]
  std::optional<TensorView> q_norm, k_norm;          // [1, head_dim]; both or none
  TensorView ffn_norm;                               // [1, hidden]
  TensorView gate, up;                               // [intermediate, hidden]
  TensorView down;                                   // [hidden, intermediate]
};

// Immutable; any thread. Every view was found exactly once and has the shape the config implies.
struct Model {
  ModelConfig config;
  TensorView embedding;   // [vocab, hidden]
  TensorView final_norm;  // [1, hidden]
  TensorView lm_head;     // [vocab, hidden]; the embedding's view when tied
  std::vector<LayerWeights> layers;
  RopeTable rope;
  TextAssets text;             // empty for a model without a tokenizer
  Hash128 weights_identity;    // of names, shapes, formats and sampled bytes of all weights
  std::string weights_format;  // "safetensors", "gguf"; part of the numerics hash

  std::vector<std::shared_ptr<const weights::MappedFile>> files;  // keep the views alive
  std::vector<std::shared_ptr<const std::vector<std::byte>>> memory;

  // To be called after the last ReadRows of a runner's start: DATA_LOSS if a file changed since it was opened.
  absl::Status CheckFilesUnchanged() const;
};

// Called with bytes looked at so far and in total; from the loading thread.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// `path`: a directory (config.json, safetensors, tokenizer.json ...; or one .gguf file), a .gguf file, or a
// .safetensors file beside its config.json. Errors are one line naming file, tensor and numbers.
absl::StatusOr<std::shared_ptr<const Model>> LoadModel(const std::string& path, const LoadProgress& progress = nullptr);

}  // namespace baton::model
