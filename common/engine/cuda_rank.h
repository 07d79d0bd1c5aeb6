#pragma once

// One device's part of the CUDA runner: its shard of the weights and of the KV pool, its activations and its stream.
// Everything here enqueues and returns; the runner decides what, and waits. The calling thread's device must be
// device() where something is made or enqueued, but for copies.
//
// With several ranks, each computes a part of what attention and the feed-forward block add to the residual stream, and
// a part of the logits; between the calls the runner makes the ranks exchange them (added_part(), logits_part()). The
// parts are f32 whatever the weights' format: rounded before they are added, a sum of N parts would carry N roundings
// where one rank's has one, and the tokens of unequal N would part sooner.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/engine/cuda_collectives.h"
#include "common/engine/cuda_step.h"
#include "common/engine/cuda_weights.h"
#include "common/kv/layout.h"
#include "kernels/cuda/decode_attention.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/paged_kv.h"

namespace baton {

class CudaRank {
 public:
  // `layout` and `pool`: of this rank's KV heads. RESOURCE_EXHAUSTED when there is no memory for the activations.
  static absl::StatusOr<std::unique_ptr<CudaRank>> Create(std::shared_ptr<const CudaWeights> weights,
                                                          const KvLayout& layout, std::span<std::byte> pool,
                                                          const CudaRunnerOptions& options,
                                                          const CudaStepLimits& limits);

  // Device memory that a rank takes beside weights and pool.
  static uint64_t ActivationBytes(std::shared_ptr<const CudaWeights> weights, const KvLayout& layout,
                                  const CudaRunnerOptions& options, const CudaStepLimits& limits);

  // Prompt chunks take the kernel for them; else every row is taken as in a decode step.
  bool takes_prefill() const { return takes_prefill_; }

  // Copies what `shape` needs of the inputs in pinned memory, which stay as they are until the step has run.
  absl::Status SendInputs(const CudaStepInputs& host, const CudaStepShape& shape);

  // A step in this order: the embedding, both halves of each layer, the head when rows are wanted.
  absl::Status EnqueueEmbedding(const CudaStepShape& shape);
  absl::Status EnqueueAttentionHalf(uint32_t layer, const CudaStepShape& shape);
  absl::Status EnqueueFeedForwardHalf(uint32_t layer, const CudaStepShape& shape);
  absl::Status EnqueueHead(const CudaStepShape& shape);

  // With several ranks: what is added or gathered behind each half, [rows, hidden]; gathered where the order of a sum
  // must not depend on the number of rows.
  bool gathers_parts() const { return options_.deterministic; }
  CudaCollectives::Part added_part() const;
  // ... and behind the head, [wanted, VocabPerRank]; then the first rank puts them into logits().
  CudaCollectives::Part logits_part() const;
  absl::Status MergeLogits(int64_t wanted);

  // What the step has computed, on the first rank: row i of [wanted, vocab] f32 in device memory belongs to the i-th
  // wanted row.
  float* logits() const { return logits_.as<float>(); }
  const device::Stream& stream() const { return stream_; }
  int device() const { return weights_->device; }

  // One block of this rank's heads, in the stream's order. An error comes out of the next step.
  void CopyBlock(BlockId from, BlockId to);
  void SwapOut(BlockId from, uint32_t slot);
  void SwapIn(uint32_t slot, BlockId to);

 private:
  CudaRank(std::shared_ptr<const CudaWeights> weights, const KvLayout& layout, std::span<std::byte> pool,
           const CudaRunnerOptions& options, const CudaStepLimits& limits);
  // The buffers below that lie on the device, and their bytes.
  std::vector<std::pair<device::Memory*, uint64_t>> Activations();
  absl::Status Allocate();
  absl::Status EnqueueAttention(uint32_t layer, const CudaStepShape& shape);
  // Adds what the last half computed to the residual stream, and the norm of that.
  absl::Status AddAndNorm(const float* bias, const float* norm, const CudaStepShape& shape);
  // ... computes it.
  absl::Status AddedProduct(const void* x, const void* w, int64_t inputs, const CudaStepShape& shape);
  absl::Status Product(const void* x, const void* w, int64_t rows, int64_t outputs, int64_t inputs, DType y_dtype,
                       void* y);
  bool alone() const { return weights_->shard.ranks == 1; }
  uint64_t vocab_per_rank() const { return VocabPerRank(weights_->config, weights_->shard.ranks); }
  cuda::PagedKv KvOf(uint32_t layer) const;
  cuda::PagedRows RowsFrom(int64_t first) const;
  cuda::DecodeAttentionShape DecodeShape(uint32_t layer, int64_t max_length) const;
  std::byte* BlockAt(BlockId block) const;
  std::byte* SlotAt(uint32_t slot) const;
  void MoveBlock(void* to, const void* from);

  const std::shared_ptr<const CudaWeights> weights_;
  const KvLayout layout_;
  const std::span<std::byte> pool_;
  const CudaRunnerOptions options_;
  const CudaStepLimits limits_;
  bool takes_prefill_ = false;
  device::Stream stream_;
  std::unique_ptr<cuda::Gemm> gemm_;
  CudaStepInputs inputs_;

  device::Memory input_memory_;
  device::Memory swap_;                     // pinned
  device::Memory hidden_;                   // [rows, hidden] f32: the residual stream
  device::Memory normed_;                   // [rows, hidden]
  device::Memory qkv_;                      // [rows, (heads + 2 kv_heads) * head_dim]
  device::Memory context_;                  // [rows, heads * head_dim]
  device::Memory delta_;                    // [rows, hidden]; with several ranks f32
  device::Memory parts_;                    // [ranks, rows, hidden] f32, where parts are gathered
  device::Memory gate_up_;                  // [rows, 2 * intermediate]
  device::Memory ffn_;                      // [rows, intermediate]
  device::Memory selected_;                 // [batch, hidden]
  device::Memory logits_;                   // [batch, vocab] f32, of the first rank
  device::Memory own_logits_, all_logits_;  // with several ranks: [batch, VocabPerRank] f32, and one behind the other
  device::Memory attention_;                // workspace
  device::Memory gemm_workspace_;
};

}  // namespace baton
