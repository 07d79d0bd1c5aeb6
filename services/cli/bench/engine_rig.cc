#include "services/cli/bench/engine_rig.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/status.h"
#include "services/cli/bench/statistics.h"

namespace baton::cli {

absl::StatusOr<std::unique_ptr<EngineRig>> EngineRig::Create(std::shared_ptr<const CpuWeights> weights,
                                                             const Options& options) {
  std::unique_ptr<EngineRig> rig(new EngineRig());
  const KvLayout layout = MakeKvLayout(weights->config, options.kv_dtype);
  const uint32_t blocks = layout.BlocksFor(options.positions) * options.sequences;
  try {
    rig->memory_ = AlignedBuffer(uint64_t{blocks} * layout.BytesPerBlock());
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("no memory for %d KV blocks of %d bytes", blocks, layout.BytesPerBlock());
  }
  std::memset(rig->memory_.data(), 0, rig->memory_.size());
  CpuRunnerOptions runner;
  runner.threads = options.threads;
  runner.max_step_tokens = std::max(options.step_tokens, options.sequences);
  runner.max_batch = std::max(runner.max_batch, options.sequences);
  BATON_ASSIGN_OR_RETURN(
      rig->runner_, CpuRunner::Create(std::move(weights), layout, {rig->memory_.data(), rig->memory_.size()}, runner));
  // Those of a sequence lie between the others', as in a pool that has been used.
  rig->blocks_.resize(options.sequences);
  for (BlockId block = 0; block < blocks; ++block) rig->blocks_[block % options.sequences].push_back(block);
  rig->logits_.resize(options.sequences);
  return rig;
}

absl::StatusOr<double> EngineRig::Prefill(const std::vector<TokenId>& prompt) {
  const StepSequence sequence{prompt, 0, blocks_.front(), true};
  absl::Status status;
  const double seconds = SecondsOf([&] { status = runner_->Step({&sequence, 1}, std::span(logits_).first(1)); });
  if (!status.ok()) return status;
  return seconds;
}

absl::StatusOr<double> EngineRig::Decode(uint32_t depth, uint32_t steps) {
  absl::Status status;
  std::vector<StepSequence> sequences(blocks_.size());
  const double seconds = SecondsOf([&] {
    for (uint32_t step = 0; step < steps && status.ok(); ++step) {
      const TokenId token = static_cast<TokenId>((step * 37 + 11) % 250);
      for (size_t i = 0; i < sequences.size(); ++i) sequences[i] = {{&token, 1}, depth + step, blocks_[i], true};
      status = runner_->Step(sequences, logits_);
    }
  });
  if (!status.ok()) return status;
  return seconds / steps;
}

}  // namespace baton::cli
