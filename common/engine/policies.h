#pragma once

// What an operator chooses about scheduling, by name.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

enum class BatchingMode : uint8_t {
  kContinuous,  // sequences join and leave at every step
  // The others fix the members of a batch when it starts. A finished member is answered and gives its blocks back at
  // once, but its slot stays empty until all members are done.
  kDynamic,  // the next batch starts when its slots are full or its oldest request has waited for the batch timeout
  kStatic,   // the next batch starts at once with what waits
};

absl::StatusOr<BatchingMode> ParseBatchingMode(const std::string& name);
const char* BatchingModeName(BatchingMode mode);
std::vector<std::string> BatchingModeNames();

// How a preempted sequence gets its KV back. Tokens are the same either way.
enum class PreemptionMode : uint8_t {
  kAuto,       // whichever the learned costs say is cheaper
  kSwap,       // copied to the swap area, as long as that has room; else recomputed
  kRecompute,  // prompt and generated tokens run again
};

absl::StatusOr<PreemptionMode> ParsePreemptionMode(const std::string& name);
std::vector<std::string> PreemptionModeNames();

}  // namespace baton
