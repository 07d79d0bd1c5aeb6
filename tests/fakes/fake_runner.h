#pragma once

// A deterministic model without weights. The KV of a position is one 64-bit number made of the token, the position and
// the number read from the position before; the logits are made of all numbers read through the block table. So a wrong
// block table, a missing copy, a stale block or a wrong position changes the tokens that follow.

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/engine/runner.h"
#include "common/sampling/params.h"

namespace baton {

class FakeRunner final : public Runner {
 public:
  struct Options {
    uint32_t blocks = 64;
    uint32_t block_size = 16;
    uint32_t vocab_size = 97;
    uint32_t max_step_tokens = 512;
    uint32_t max_batch = 64;
    uint32_t swap_slots = 0;
  };
  explicit FakeRunner(const Options& options);

  // INTERNAL for a batch over the limits or a block table that does not cover the positions.
  absl::Status Step(std::span<const StepSequence> batch, std::span<std::span<float>> logits) override;
  void CopyBlock(BlockId from, BlockId to) override;
  uint32_t swap_slots() const override { return options_.swap_slots; }
  void SwapOut(BlockId from, uint32_t slot) override;
  void SwapIn(uint32_t slot, BlockId to) override;
  uint32_t vocab_size() const override { return options_.vocab_size; }
  uint32_t max_step_tokens() const override { return options_.max_step_tokens; }
  uint32_t max_batch() const override { return options_.max_batch; }
  NumericsHash numerics_hash() const override { return {7}; }
  StepWork last_work() const override { return work_; }

  // Called at the start of each step; an error fails it, an exception leaves it.
  std::function<absl::Status()> before_step;
  // Called before each block is swapped out or in; an exception leaves it.
  std::function<void()> before_swap;
  // What a step and a swapped block take: `clock` moves by so much.
  FakeClock* clock = nullptr;
  std::function<Duration(std::span<const StepSequence>)> step_cost;
  Duration swap_cost{0};
  // The KV of this token is NaN, as are all logits made of it.
  std::atomic<TokenId> poison{-1};

  std::vector<uint32_t> batch_sizes;  // of every step
  std::vector<uint32_t> batch_tokens;
  uint64_t positions_run() const { return positions_run_; }

  // The stored numbers of a block, for a transfer to another runner.
  std::span<uint64_t> Slots(BlockId block);

 private:
  absl::Status Check(std::span<const StepSequence> batch) const;
  void RunSequence(const StepSequence& sequence, std::span<float> row);

  const Options options_;
  std::vector<uint64_t> store_;  // [blocks, block_size]
  std::vector<uint64_t> swap_;   // [swap_slots, block_size]
  std::vector<float> logits_;    // [max_batch, vocab_size]
  StepWork work_;
  uint64_t positions_run_ = 0;
};

// What the fake model answers to `prompt` for one choice that has `generated` already, computed without an engine.
std::vector<TokenId> FakeModelTokens(const SamplingParams& params, uint32_t choice, uint32_t vocab_size,
                                     std::span<const TokenId> prompt, std::span<const TokenId> generated = {});

}  // namespace baton
