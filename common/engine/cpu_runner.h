#pragma once

// The CPU engine: one forward pass of a packed model over a mixed batch.
//
// I6: a row's result depends on its own tokens alone, bit for bit: not on the batch, the chunking, the thread count or
// the width of the SIMD unit. The kernels' headers state the order of every addition.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_weights.h"
#include "common/engine/runner.h"
#include "common/kv/layout.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/linear.h"

namespace baton {

struct CpuRunnerOptions {
  int threads = 0;           // the step thread included; 0: one per core that this process may use
  bool pin_threads = false;  // bind the pool's threads to cores; for a process that has its cores to itself
  uint32_t max_step_tokens = 512;
  uint32_t max_batch = 64;
  uint32_t swap_slots = 0;  // blocks that the host swap area holds; its memory is touched when it is used first
};

// The layout of a pool for this model; kv_dtype: f32, f16, bf16 or int8.
KvLayout MakeKvLayout(const model::ModelConfig& config, DType kv_dtype, uint32_t block_size = 16);

class CpuRunner final : public Runner {
 public:
  // `pool` holds whole blocks of `layout`, aligned to 64 bytes, and outlives the runner; its size decides how many
  // block ids are valid. Positions at and beyond config.max_length are refused by Step. INVALID_ARGUMENT when layout
  // and model disagree, RESOURCE_EXHAUSTED when there is no memory for the activations.
  static absl::StatusOr<std::unique_ptr<CpuRunner>> Create(std::shared_ptr<const CpuWeights> weights,
                                                           const KvLayout& layout, std::span<std::byte> pool,
                                                           const CpuRunnerOptions& options);

  // Memory that Create takes beside pool and swap area: activations and scratch of the largest step.
  static uint64_t ActivationBytes(const model::ModelConfig& config, const CpuRunnerOptions& options);

  // INVALID_ARGUMENT, before anything is written, for a token, block or position out of range and for a batch that is
  // too large. Allocates nothing itself; a sampler may, while its history grows. One caller at a time.
  absl::Status Step(std::span<const StepSequence> batch, std::span<std::span<float>> logits) override;
  void CopyBlock(BlockId from, BlockId to) override;
  uint32_t swap_slots() const override { return options_.swap_slots; }
  void SwapOut(BlockId from, uint32_t slot) override;
  void SwapIn(uint32_t slot, BlockId to) override;

  uint32_t vocab_size() const override { return weights_->config.vocab; }
  uint32_t max_step_tokens() const override { return options_.max_step_tokens; }
  uint32_t max_batch() const override { return options_.max_batch; }
  NumericsHash numerics_hash() const override;
  StepWork last_work() const override { return work_; }
  // Times that all threads met, over all steps.
  uint64_t thread_runs() const { return threads_.runs(); }

 private:
  CpuRunner(std::shared_ptr<const CpuWeights> weights, const KvLayout& layout, std::span<std::byte> pool,
            const CpuRunnerOptions& options);

  int64_t PlaceRows(std::span<const StepSequence> batch);
  int64_t KeepWantedRows(std::span<const StepSequence> batch);
  cpu::AttentionCall PlanAttention(uint32_t layer);
  // Every member of a team walks through these.
  void Embed(TaskRunner& team, int64_t rows);
  void ProjectAndStore(TaskRunner& team, uint32_t layer, int64_t rows);
  void Attend(TaskRunner& team, const cpu::AttentionCall& attention, uint32_t layer, int64_t rows);
  void FeedForward(TaskRunner& team, uint32_t layer, int64_t rows);
  void RotateAndStore(uint32_t layer, int64_t row);
  void ComputeLogits(std::span<const StepSequence> batch, std::span<std::span<float>> logits);
  void CountWork(std::span<const StepSequence> batch);
  // Splits rows over the team; body(first, end).
  template <typename Body>
  static void ForRows(TaskRunner& team, int64_t rows, const Body& body);

  const std::shared_ptr<const CpuWeights> weights_;
  const KvLayout layout_;
  const std::span<std::byte> pool_;
  const uint32_t pool_blocks_;
  const CpuRunnerOptions options_;
  const std::unique_ptr<std::byte[]> swap_;  // [swap_slots] blocks
  ThreadPool threads_;
  cpu::LinearWorkspace linear_;
  cpu::AttentionWorkspace attention_;
  StepWork work_;

  // What each row of the step is, and the block that its key and value belong in.
  struct Row {
    const TokenId* token;
    uint32_t position;
    BlockId block;
  };
  std::vector<Row> rows_;
  std::vector<cpu::AttentionSequence> sequences_;
  struct SampledRow {
    std::span<float> logits;
    std::span<StepSample> samples;
  };
  std::vector<SampledRow> sampled_rows_;

  AlignedBuffer hidden_;   // [rows, hidden]: the residual stream
  AlignedBuffer normed_;   // [rows, hidden]
  AlignedBuffer qkv_;      // [rows, qkv.outputs padded]
  AlignedBuffer context_;  // [rows, heads * head_dim]: attention's output
  AlignedBuffer delta_;    // [rows, hidden padded]: what a half layer adds
  AlignedBuffer gate_up_;  // [rows, 2 * intermediate padded]
  AlignedBuffer ffn_;      // [rows, intermediate]
  AlignedBuffer cosine_;   // [rows, head_dim / 2]
  AlignedBuffer sine_;     // [rows, head_dim / 2]
  AlignedBuffer logits_;   // [max_batch, vocab padded]
};

}  // namespace baton
