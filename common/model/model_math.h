#pragma once

// Sizes that follow from a config alone; what `baton inspect` prints and the planner counts with.

#include <cstdint>

#include "common/base/dtype.h"
#include "common/model/model.h"
#include "common/model/model_config.h"

namespace baton::model {

struct ParameterCount {
  uint64_t embedding = 0;               // vocab * hidden
  uint64_t head = 0;                    // the same again, or 0 when tied
  uint64_t attention_per_layer = 0;     // q, k, v, o matrices
  uint64_t feed_forward_per_layer = 0;  // gate, up, down
  uint64_t norms_and_biases = 0;        // of the whole model
  uint64_t total = 0;
};
ParameterCount CountParameters(const ModelConfig& config);

// Bytes of K and V that one token needs in all layers with `kv_heads` heads: config.kv_heads as the model is,
// config.heads for multi-head, 1 for multi-query attention.
uint64_t KvBytesPerToken(const ModelConfig& config, DType kv_dtype, uint32_t kv_heads);
inline uint64_t KvBytesPerToken(const ModelConfig& config, DType kv_dtype) {
  return KvBytesPerToken(config, kv_dtype, config.kv_heads);
}

// Bytes of all weights as stored; a tied head counts once.
uint64_t WeightBytes(const Model& model);

}  // namespace baton::model
