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

}  // namespace baton
