#pragma once

// A model's weights in device memory, as the CUDA runner computes with them.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/hash.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/model/model.h"

namespace baton {

// Pointers of the device. Matrices are row-major [outputs, inputs] in CudaWeights::dtype, vectors f32.
struct CudaLayerWeights {
  const void* qkv = nullptr;              // [(heads + 2 * kv_heads) * head_dim, hidden]
  const void* o = nullptr;                // [hidden, heads * head_dim]
  const void* gate_up = nullptr;          // [2 * intermediate, hidden]
  const void* down = nullptr;             // [hidden, intermediate]
  const float* qkv_bias = nullptr;        // or null
  const float* o_bias = nullptr;          // or null
  const float* attention_norm = nullptr;  // [hidden]
  const float* ffn_norm = nullptr;        // [hidden]
  const float* q_norm = nullptr;          // [head_dim] or null
  const float* k_norm = nullptr;          // [head_dim] or null
};

// Immutable. Holds nothing of the Model it came from.
struct CudaWeights {
  model::ModelConfig config;
  model::RopeTable rope;
  DType dtype = DType::kBF16;       // of matrices, activations and KV: f32, f16 or bf16
  const void* embedding = nullptr;  // [vocab, hidden]
  const void* lm_head = nullptr;    // [vocab, hidden]; the embedding when tied
  const float* final_norm = nullptr;
  const float* cosine = nullptr;  // [config.max_length, head_dim / 2], times the rope's attention scale
  const float* sine = nullptr;
  std::vector<CudaLayerWeights> layers;
  Hash128 identity;  // of the model's weights and the format they are stored in
  uint64_t matrix_bytes = 0;

  std::vector<device::Memory> memory;  // what the pointers point into
};

// Copies every weight to the device, through two pinned buffers in turn, so that reading the file and the copy overlap;
// a matrix that has `dtype` in its file is never widened. DATA_LOSS when a file became shorter or was changed
// meanwhile, RESOURCE_EXHAUSTED when the memory is not there.
absl::StatusOr<std::shared_ptr<const CudaWeights>> LoadCudaWeights(const model::Model& model, DType dtype,
                                                                   const device::Stream& stream);

}  // namespace baton
