#pragma once

// The CUDA engine: one forward pass over a mixed batch on one device. Logits come back to the host, where they are
// sampled.
//
// A step is enqueued without waiting and without allocating; the host waits once, for the logits. A batch of single
// tokens is padded to the next of a few sizes and replayed as a graph that was recorded at start.
//
// I6 holds on one kind of GPU when `deterministic` is set: a matrix product then has one algorithm for every number of
// rows, and attention takes every row as a decode step does. Without it the choice of both depends on the batch.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/graph.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/engine/cuda_weights.h"
#include "common/engine/runner.h"
#include "common/kv/layout.h"
#include "kernels/cuda/decode_attention.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/paged_kv.h"
#include "kernels/cuda/prefill_attention.h"

namespace baton {

struct CudaRunnerOptions {
  uint32_t max_step_tokens = 512;
  uint32_t max_batch = 64;
  bool graphs = true;
  bool deterministic = false;
  uint32_t swap_blocks = 0;  // of the swap area in pinned host memory
};

class CudaRunner final : public Runner {
 public:
  // `pool`: device memory of whole blocks of `layout`, of the weights' dtype, keys by slot. It outlives the runner, and
  // its size decides how many block ids are valid. INVALID_ARGUMENT when layout and model disagree or the kernels do
  // not take the shape, RESOURCE_EXHAUSTED when there is no memory for the activations.
  static absl::StatusOr<std::unique_ptr<CudaRunner>> Create(std::shared_ptr<const CudaWeights> weights,
                                                            const KvLayout& layout, std::span<std::byte> pool,
                                                            const CudaRunnerOptions& options);

  // INVALID_ARGUMENT, before anything is written, for a token, block or position out of range and for a batch that is
  // too large; INTERNAL for an error of the device, after which nothing works any more. One caller at a time.
  absl::Status Step(std::span<const StepSequence> batch, std::span<std::span<float>> logits) override;
  void CopyBlock(BlockId from, BlockId to) override;
  uint32_t swap_slots() const override { return options_.swap_blocks; }
  void SwapOut(BlockId from, uint32_t slot) override;
  void SwapIn(uint32_t slot, BlockId to) override;

  uint32_t vocab_size() const override { return weights_->config.vocab; }
  uint32_t max_step_tokens() const override { return options_.max_step_tokens; }
  uint32_t max_batch() const override { return options_.max_batch; }
  NumericsHash numerics_hash() const override;
  StepWork last_work() const override { return work_; }

 private:
  // What a step enqueues, but for its inputs.
  struct Shape {
    int64_t rows = 0;
    int64_t decode_rows = 0;  // the first rows: attention as in a decode step
    int64_t tiles = 0;        // of prefill attention, for the rows behind them
    int64_t wanted = 0;       // rows whose logits are computed
    bool gathered = false;    // they lie anywhere; else they are the first rows
    int64_t max_length = 0;   // of the sequences of decode rows
  };

  CudaRunner(std::shared_ptr<const CudaWeights> weights, const KvLayout& layout, std::span<std::byte> pool,
             const CudaRunnerOptions& options);
  absl::Status Allocate();
  absl::Status RecordGraphs();
  // Writes the step's inputs to pinned memory and enqueues their copy.
  absl::StatusOr<Shape> SendInputs(std::span<const StepSequence> batch);
  absl::Status EnqueueStep(const Shape& shape);
  absl::Status EnqueueLayer(uint32_t layer, const Shape& shape);
  absl::Status EnqueueAttention(uint32_t layer, const Shape& shape);
  absl::Status Product(const void* x, const void* w, int64_t rows, int64_t outputs, int64_t inputs, DType y_dtype,
                       void* y);
  void CountWork(std::span<const StepSequence> batch);
  cuda::PagedKv KvOf(uint32_t layer) const;
  cuda::PagedRows RowsFrom(int64_t first) const;
  cuda::DecodeAttentionShape DecodeShape(uint32_t layer, int64_t max_length) const;

  const std::shared_ptr<const CudaWeights> weights_;
  const KvLayout layout_;
  const std::span<std::byte> pool_;
  const CudaRunnerOptions options_;
  const int32_t table_stride_;
  device::Stream stream_;
  std::unique_ptr<cuda::Gemm> gemm_;
  std::map<int64_t, device::Graph> graphs_;  // by rows
  StepWork work_;

  // Inputs, at the same offsets in pinned and in device memory.
  struct Inputs {
    TokenId* tokens = nullptr;           // [rows]
    int32_t* positions = nullptr;        // [rows]
    int32_t* sequences = nullptr;        // [rows]
    BlockId* wanted = nullptr;           // [max_batch]: rows, as "blocks" of the residual stream
    cuda::PrefillTile* tiles = nullptr;  // [max_tiles]
    BlockId* tables = nullptr;           // [max_batch, table_stride]
    uint64_t bytes = 0;
  };
  Inputs InputsIn(std::byte* memory) const;
  void MoveBlock(void* to, const void* from);
  int64_t MaxTiles() const;
  Inputs host_, device_;
  std::vector<cuda::PrefillTile> tiles_;
  std::vector<int64_t> last_rows_;  // of each sequence of the step

  device::Memory host_inputs_, device_inputs_, host_logits_, swap_;
  device::Memory hidden_;     // [rows, hidden] f32: the residual stream
  device::Memory normed_;     // [rows, hidden]
  device::Memory qkv_;        // [rows, (heads + 2 kv_heads) * head_dim]
  device::Memory context_;    // [rows, heads * head_dim]
  device::Memory delta_;      // [rows, hidden]
  device::Memory gate_up_;    // [rows, 2 * intermediate]
  device::Memory ffn_;        // [rows, intermediate]
  device::Memory selected_;   // [max_batch, hidden]
  device::Memory logits_;     // [max_batch, vocab] f32
  device::Memory attention_;  // workspace
  device::Memory gemm_workspace_;
};

}  // namespace baton
