#pragma once

// What an engine accepts at all, whatever its load.

#include "absl/status/status.h"
#include "common/engine/request.h"
#include "common/kv/layout.h"

namespace baton {

struct AdmissionLimits {
  uint32_t block_size = 16;
  uint32_t pool_blocks = 0;
  uint32_t vocab_size = 0;
  uint32_t max_model_len = 0;  // 0: no limit
};

// INVALID_ARGUMENT for a malformed request, FAILED_PRECONDITION for one that is longer than the model or needs more
// blocks for one choice than the whole pool has; both with the numbers.
absl::Status CheckRequest(const EngineRequest& request, const AdmissionLimits& limits);

}  // namespace baton
