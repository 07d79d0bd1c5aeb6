#pragma once

// One forward pass over a mixed batch, and the tokens that follow from it. Implemented by cpu_runner and cuda_runner;
// called by the step thread only.

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/sampling/sampled_token.h"
#include "common/sampling/sampler.h"

namespace baton {

// A choice that takes its next token in a step. Samplers are told of their tokens by the runner; every choice has its
// own, so they may be asked at the same time.
struct StepSample {
  Sampler* sampler = nullptr;
  SampledToken token;  // set by the step; finish = kError when no token is possible
};

// A sequence's share of a step: `tokens` sit at positions [position, position + tokens.size()). Their keys and values
// are written to `blocks` (the sequence's whole block table, at least ceil((position + tokens.size()) / block_size)
// entries), and attention reads positions [0, position + i] from there.
struct StepSequence {
  std::span<const TokenId> tokens;
  uint32_t position = 0;
  std::span<const BlockId> blocks;
  bool wants_logits = false;  // of the last token, on the host: for tests and measurements
  // Choices whose next tokens are drawn from the logits of the last token; several when they share a prompt.
  std::span<StepSample> samples;

  bool needs_logits() const { return wants_logits || !samples.empty(); }
};

// What a runner does whose logits lie on the host: samples all choices of one row.
inline void SampleRow(std::span<float> logits, std::span<StepSample> samples) {
  for (StepSample& sample : samples) sample.token = sample.sampler->Sample(logits);
}

class Runner {
 public:
  virtual ~Runner() = default;

  // Runs the batch and fills in its samples. logits[i] is [vocab_size] f32 for sequences that want them, else empty;
  // writable, valid until the next Step. `logits` has room for batch.size() entries, or none when no sequence wants
  // any. After an error nothing of the step counts, and the samplers in it are of no more use.
  virtual absl::Status Step(std::span<const StepSequence> batch, std::span<std::span<float>> logits) = 0;

  // Copies one block's bytes (copy-on-write).
  virtual void CopyBlock(BlockId from, BlockId to) = 0;

  // The host swap area: slots of a block each, numbered from 0; none when there is no such area. A call may return
  // before its bytes have moved, but later calls of any kind see them as if they had.
  virtual uint32_t swap_slots() const = 0;
  virtual void SwapOut(BlockId from, uint32_t slot) = 0;
  virtual void SwapIn(uint32_t slot, BlockId to) = 0;

  virtual uint32_t vocab_size() const = 0;
  // Most tokens and most sequences that one Step takes.
  virtual uint32_t max_step_tokens() const = 0;
  virtual uint32_t max_batch() const = 0;
  // Weights identity, weights format, engine, kernel version, rope, tensor-parallel size.
  virtual NumericsHash numerics_hash() const = 0;

  // Work of the last Step, for baton_engine_{flops,bytes}_total.
  struct StepWork {
    uint64_t flops = 0;
    uint64_t bytes = 0;
  };
  virtual StepWork last_work() const = 0;
};

}  // namespace baton
