#pragma once

// How a model's keys and values lie in a pool.

#include <cstdint>

#include "common/kv/layout.h"
#include "common/model/model_config.h"

namespace baton {

inline KvLayout KvLayoutOf(const model::ModelConfig& config, DType kv_dtype, uint32_t block_size, KeyOrder key_order) {
  return {.dtype = kv_dtype,
          .layers = config.layers,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .block_size = block_size,
          .key_order = key_order};
}

}  // namespace baton
