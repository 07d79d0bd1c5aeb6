#pragma once

// The scheduler without a model: a token a step and request, so that batching modes can be compared exactly.

#include <cstdint>
#include <span>
#include <vector>

#include "common/engine/policies.h"

namespace baton {

struct SimulatedRequest {
  uint32_t arrival = 0;  // step before which it arrives
  uint32_t tokens = 1;   // to generate, a step each; at least 1
};

struct BatchingTimeline {
  static constexpr int32_t kEmpty = -1;
  // What each slot ran in each step: an index into the requests, or kEmpty.
  std::vector<std::vector<int32_t>> steps;  // [steps][slots]
  std::vector<uint32_t> started;            // of each request: its first step
  std::vector<uint32_t> ended;              // ... and the step after its last

  uint32_t slots_used = 0;    // over all steps: tokens
  uint32_t slots_wasted = 0;  // ... and empty slots
  double used_share = 0;      // slots_used / (slots_used + slots_wasted)
  double mean_wait = 0;       // steps from arrival to the first
  double mean_latency = 0;    // steps from arrival to the end of the last
  double tokens_per_step = 0;
};

// Runs `requests` (with their prompts of one token, so that the first step samples already) on `slots` slots until all
// have ended. Steps in which nothing runs count. A dynamic batch waits at most `batch_timeout` steps.
BatchingTimeline SimulateBatching(BatchingMode mode, uint32_t slots, uint32_t batch_timeout,
                                  std::span<const SimulatedRequest> requests);

}  // namespace baton
