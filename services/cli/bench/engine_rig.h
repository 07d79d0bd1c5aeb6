#pragma once

// The CPU engine's runner alone, without scheduler and sampling, with a pool of its own: what a step takes.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/engine/cpu_runner.h"
#include "kernels/aligned_buffer.h"

namespace baton::cli {

class EngineRig {
 public:
  struct Options {
    uint32_t sequences = 1;
    uint32_t positions = 0;  // that each has blocks for
    uint32_t step_tokens = 0;
    DType kv_dtype = DType::kF16;
    int threads = 0;
  };
  // RESOURCE_EXHAUSTED when memory does not hold the pool.
  static absl::StatusOr<std::unique_ptr<EngineRig>> Create(std::shared_ptr<const CpuWeights> weights,
                                                           const Options& options);

  // Seconds of a step that reads `prompt` into the first sequence.
  absl::StatusOr<double> Prefill(const std::vector<TokenId>& prompt);
  // Seconds of a step, mean over `steps` steps of all sequences from `depth` on. What lies before is zeros: it costs
  // the same.
  absl::StatusOr<double> Decode(uint32_t depth, uint32_t steps);

  // Of the last step.
  Runner::StepWork work() const { return runner_->last_work(); }

 private:
  AlignedBuffer memory_;
  std::unique_ptr<CpuRunner> runner_;
  std::vector<std::vector<BlockId>> blocks_;  // by sequence
  std::vector<std::span<float>> logits_;
};

}  // namespace baton::cli
