#pragma once

// The CUDA engine: one forward pass over a mixed batch, on one device or, tensor parallel, on several of this process.
// The runner checks a batch, lays out its inputs, replays graphs and reads back; cuda_rank.h holds what lies on a
// device and enqueues kernels; cuda_sampler.h draws the tokens on the first device. Logits stay there, but for those
// that a test or a measurement wants to see.
//
// A step is enqueued without waiting and without allocating; the host waits once, for the tokens. A batch of single
// tokens is padded to the next of a few sizes and replayed as graphs that were recorded at start, one on each device.
//
// The calling thread enqueues for all ranks, phase by phase: so every rank comes to the same exchanges in the same
// order, in graphs too, and an error of enqueueing leaves nobody waiting. An error of one device does; it is seen by
// asking all of them while they run, and the exchange is aborted.
//
// I6 holds on one kind of GPU when `deterministic` is set: a matrix product then has one algorithm for every number of
// rows, attention takes every row as a decode step does, and the ranks' parts are added in the order of ranks. Without
// it the choice of all three depends on the batch. Another number of ranks is another sum: numerics_hash says so.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/graph.h"
#include "common/device/memory.h"
#include "common/engine/cuda_collectives.h"
#include "common/engine/cuda_pool.h"
#include "common/engine/cuda_rank.h"
#include "common/engine/cuda_sampler.h"
#include "common/engine/cuda_step.h"
#include "common/engine/cuda_weights.h"
#include "common/engine/runner.h"
#include "common/kv/layout.h"
#include "kernels/cuda/prefill_attention.h"

namespace baton {

// Whether the engine stores keys and values as `kv`: the weights' own format or, beside f16 and bf16, fp8. That halves
// the pool and what attention reads, and costs exactness: there are no scales, keys and values beyond +-448 are
// clipped.
bool CudaStoresKv(DType kv, DType weights);

// How it stores a model's keys and values.
KvLayout CudaKvLayout(const model::ModelConfig& config, DType kv_dtype, uint32_t block_size = 16);

class CudaRunner final : public Runner {
 public:
  // `shards`: all of a model, rank by rank, each on a device of its own. `layout`: of all KV heads, of a
  // dtype that CudaStoresKv allows, keys by slot. `pools`: device memory of each rank, of whole blocks of its share of
  // the heads; it outlives the runner, and its size decides how many block ids are valid. INVALID_ARGUMENT when these
  // disagree or the kernels do not take the shape, FAILED_PRECONDITION for several ranks without NCCL,
  // RESOURCE_EXHAUSTED when there is no memory for the activations.
  static absl::StatusOr<std::unique_ptr<CudaRunner>> Create(std::vector<std::shared_ptr<const CudaWeights>> shards,
                                                            const KvLayout& layout,
                                                            std::vector<std::span<std::byte>> pools,
                                                            const CudaRunnerOptions& options);
  // On a pool's ranks, which outlives the runner and is told of what the runner enqueues (CudaPool::RecordStep).
  static absl::StatusOr<std::unique_ptr<CudaRunner>> Create(std::vector<std::shared_ptr<const CudaWeights>> shards,
                                                            CudaPool& pool, const CudaRunnerOptions& options);
  // Device memory that the first rank, which has most, takes beside weights and pool.
  static uint64_t ActivationBytes(const std::shared_ptr<const CudaWeights>& first_shard, const KvLayout& layout,
                                  const CudaRunnerOptions& options);
  // On one device.
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

  uint32_t vocab_size() const override { return weights().config.vocab; }
  uint32_t max_step_tokens() const override { return options_.max_step_tokens; }
  uint32_t max_batch() const override { return options_.max_batch; }
  NumericsHash numerics_hash() const override;
  StepWork last_work() const override { return work_; }

 private:
  CudaRunner(std::vector<std::shared_ptr<const CudaWeights>> shards, const KvLayout& layout,
             std::vector<std::span<std::byte>> pools, CudaPool* pool, const CudaRunnerOptions& options);
  static absl::StatusOr<std::unique_ptr<CudaRunner>> Make(std::vector<std::shared_ptr<const CudaWeights>> shards,
                                                          const KvLayout& layout,
                                                          std::vector<std::span<std::byte>> pools, CudaPool* pool,
                                                          const CudaRunnerOptions& options);
  absl::Status Start();
  absl::Status ConnectRanks();
  absl::Status RecordGraphs();
  // Writes the step's inputs to pinned memory.
  CudaStepShape WriteInputs(std::span<const StepSequence> batch);
  // Enqueues a step with its sampling, and waits for it.
  absl::Status Run(std::span<const StepSequence> batch, std::span<std::span<float>> logits);
  // Enqueues a copy of all `rows` of logits, if any is wanted, and says where they will be.
  absl::Status ReadLogits(std::span<const StepSequence> batch, int64_t rows, std::span<std::span<float>> logits);
  // The step's kernels, after its inputs.
  absl::Status EnqueueStep(const CudaStepShape& shape);
  // With the calling thread on each rank's device in turn.
  template <typename Enqueue>
  absl::Status OnEachRank(const Enqueue& enqueue);
  // Between the ranks, behind a half layer and behind the head; nothing for one rank.
  absl::Status ExchangeParts(int64_t rows);
  absl::Status ExchangeLogits(int64_t rows);
  // Tells the pool where the streams stand.
  absl::Status RecordStep();
  template <typename Move>
  void MoveBlocks(const Move& move);
  absl::Status Wait();
  // After an error: nobody waits for a rank that has failed.
  void GiveUp(const absl::Status& error);
  void CountWork(std::span<const StepSequence> batch);

  const CudaWeights& weights() const { return *shards_.front(); }
  uint32_t ranks() const { return static_cast<uint32_t>(shards_.size()); }
  uint32_t pool_blocks() const {
    return static_cast<uint32_t>(pools_.front().size() / (layout_.BytesPerBlock() / ranks()));
  }

  const std::vector<std::shared_ptr<const CudaWeights>> shards_;
  const KvLayout layout_;
  const std::vector<std::span<std::byte>> pools_;
  CudaPool* const pool_;  // of these, or null
  const CudaRunnerOptions options_;
  const CudaStepLimits limits_;
  std::vector<std::unique_ptr<CudaRank>> ranks_;
  std::unique_ptr<CudaSampler> sampler_;                           // on the first of them
  std::vector<device::Event> ends_;                                // of a step, on each of several ranks
  std::unique_ptr<CudaCollectives> collectives_;                   // of several ranks; after them, before the graphs
  std::vector<CudaCollectives::Part> added_parts_, logits_parts_;  // what they exchange
  std::map<int64_t, std::vector<device::Graph>> graphs_;           // by rows; one for each rank
  absl::Status broken_;                                            // once the ranks have parted
  StepWork work_;

  device::Memory input_memory_;  // pinned
  device::Memory logits_;        // pinned, [max_batch, vocab] f32: allocated by the first step that wants some
  CudaStepInputs inputs_;
  std::vector<cuda::PrefillTile> tiles_;
  std::vector<int64_t> last_rows_;  // of each sequence of the step
};

}  // namespace baton
