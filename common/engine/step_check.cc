#include "common/engine/step_check.h"

#include "common/base/status.h"

namespace baton {

absl::Status CheckStep(std::span<const StepSequence> batch, size_t logits, const KvLayout& layout,
                       const StepLimits& limits) {
  if (batch.size() > limits.max_batch) {
    return InvalidArgument("batch of %d sequences, a step takes %d", batch.size(), limits.max_batch);
  }
  uint64_t tokens = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const StepSequence& sequence = batch[i];
    const uint64_t end = uint64_t{sequence.position} + sequence.tokens.size();
    tokens += sequence.tokens.size();
    if (sequence.wants_logits && logits < batch.size()) {
      return InvalidArgument("batch of %d sequences with room for the logits of %d", batch.size(), logits);
    }
    if (sequence.tokens.empty()) return InvalidArgument("sequence %d of the batch has no tokens", i);
    if (end > limits.max_length) {
      return InvalidArgument("sequence %d of the batch reaches %d positions, the model takes %d", i, end,
                             limits.max_length);
    }
    if (sequence.blocks.size() < layout.BlocksFor(end)) {
      return InvalidArgument("sequence %d of the batch needs %d blocks for %d positions, it has %d", i,
                             layout.BlocksFor(end), end, sequence.blocks.size());
    }
    for (const BlockId block : sequence.blocks.first(layout.BlocksFor(end))) {
      if (block >= limits.pool_blocks) return InvalidArgument("block %d, the pool has %d", block, limits.pool_blocks);
    }
    for (const TokenId token : sequence.tokens) {
      if (token < 0 || static_cast<uint32_t>(token) >= limits.vocab) {
        return InvalidArgument("token %d, the vocabulary has %d", token, limits.vocab);
      }
    }
  }
  if (tokens > limits.max_step_tokens) {
    return InvalidArgument("batch of %d tokens, a step takes %d", tokens, limits.max_step_tokens);
  }
  return absl::OkStatus();
}

}  // namespace baton
