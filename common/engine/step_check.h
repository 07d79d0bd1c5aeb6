#pragma once

// What every runner asks of a batch before it writes anything.

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/engine/runner.h"
#include "common/kv/layout.h"

namespace baton {

struct StepLimits {
  uint32_t max_step_tokens = 0;
  uint32_t max_batch = 0;
  uint32_t max_length = 0;  // positions
  uint32_t vocab = 0;
  uint32_t pool_blocks = 0;
};

// INVALID_ARGUMENT with the numbers, for a token, block or position out of range and for a batch that is too large.
absl::Status CheckStep(std::span<const StepSequence> batch, size_t logits, const KvLayout& layout,
                       const StepLimits& limits);

}  // namespace baton
