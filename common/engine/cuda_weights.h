#pragma once

// A model's weights in device memory, as the CUDA runner computes with them: all of them on one device, or a shard on
// each of several (Shoeybi et al. 2019, "Megatron-LM"). A shard has whole KV heads with their query heads, and the same
// share of the feed-forward block: outputs of qkv and gate/up, inputs of o and down, whose products are parts of a sum.
// It has a share of lm_head's vocabulary. Embedding, norms and biases of sums are on every device.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/hash.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/model/model.h"

namespace baton {

// Which part of a model: all by default.
struct CudaShard {
  uint32_t rank = 0;
  uint32_t ranks = 1;
};

// What a shard has of a model.
struct CudaShare {
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t intermediate = 0;
  uint32_t first_token = 0;  // of lm_head
  uint32_t vocab = 0;
};

// INVALID_ARGUMENT with the numbers when KV heads or feed-forward width do not divide.
absl::StatusOr<CudaShare> ShareOf(const model::ModelConfig& config, const CudaShard& shard);

// Most tokens of lm_head that a rank has; all but the last ones have so many.
uint32_t VocabPerRank(const model::ModelConfig& config, uint32_t ranks);

// Pointers of the device. Matrices are row-major [outputs, inputs] in CudaWeights::dtype, vectors f32. Heads and widths
// are the shard's.
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
  model::ModelConfig config;  // of the whole model
  CudaShard shard;
  CudaShare share;
  int device = 0;
  model::RopeTable rope;
  DType dtype = DType::kBF16;       // of matrices, activations and KV: f32, f16 or bf16
  const void* embedding = nullptr;  // [vocab, hidden]
  const void* lm_head = nullptr;    // [share.vocab, hidden]; rows of the embedding when tied
  const float* final_norm = nullptr;
  const float* cosine = nullptr;  // [config.max_length, head_dim / 2], times the rope's attention scale
  const float* sine = nullptr;
  std::vector<CudaLayerWeights> layers;
  Hash128 identity;  // of the model's weights and the format they are stored in
  uint64_t matrix_bytes = 0;

  std::vector<device::Memory> memory;  // what the pointers point into
};

// Bytes of matrices copied so far and in total; from the calling thread.
using UploadProgress = std::function<void(uint64_t done, uint64_t total)>;

// Copies a shard's weights to the calling thread's device, through two pinned buffers in turn, so that reading the file
// and the copy overlap; a matrix that has `dtype` in its file is never widened. Waits for `stream`, which is of that
// device. DATA_LOSS when a file became shorter or was changed meanwhile, RESOURCE_EXHAUSTED when the memory is not
// there.
absl::StatusOr<std::shared_ptr<const CudaWeights>> LoadCudaWeights(const model::Model& model, DType dtype,
                                                                   const device::Stream& stream,
                                                                   const CudaShard& shard = {},
                                                                   const UploadProgress& progress = nullptr);

// A shard on each of `devices`, in their order; leaves the calling thread on the first.
absl::StatusOr<std::vector<std::shared_ptr<const CudaWeights>>> LoadCudaShards(
    const model::Model& model, DType dtype, std::span<const int> devices, const UploadProgress& progress = nullptr);

}  // namespace baton
