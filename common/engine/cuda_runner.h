#pragma once

// The CUDA engine: one forward pass over a mixed batch on one device. The runner checks a batch, lays out its inputs,
// replays graphs and reads back; cuda_rank.h holds what lies on the device and enqueues kernels. Logits come back to
// the host, where they are sampled.
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
#include "common/engine/cuda_rank.h"
#include "common/engine/cuda_step.h"
#include "common/engine/cuda_weights.h"
#include "common/engine/runner.h"
#include "common/kv/layout.h"
#include "kernels/cuda/prefill_attention.h"

namespace baton {

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
  CudaRunner(std::shared_ptr<const CudaWeights> weights, const KvLayout& layout, std::span<std::byte> pool,
             const CudaRunnerOptions& options);
  absl::Status Start();
  absl::Status RecordGraphs();
  // Writes the step's inputs to pinned memory.
  CudaStepShape WriteInputs(std::span<const StepSequence> batch);
  void CountWork(std::span<const StepSequence> batch);

  const std::shared_ptr<const CudaWeights> weights_;
  const KvLayout layout_;
  const std::span<std::byte> pool_;
  const CudaRunnerOptions options_;
  const CudaStepLimits limits_;
  std::unique_ptr<CudaRank> rank_;
  std::map<int64_t, device::Graph> graphs_;  // by rows
  StepWork work_;

  device::Memory input_memory_, logits_;  // pinned
  CudaStepInputs inputs_;
  std::vector<cuda::PrefillTile> tiles_;
  std::vector<int64_t> last_rows_;  // of each sequence of the step
};

}  // namespace baton
