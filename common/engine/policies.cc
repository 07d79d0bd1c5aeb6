#include "common/engine/policies.h"

#include "common/base/status.h"

namespace baton {

absl::StatusOr<BatchingMode> ParseBatchingMode(const std::string& name) {
  for (const BatchingMode mode : {BatchingMode::kContinuous, BatchingMode::kDynamic, BatchingMode::kStatic}) {
    if (name == BatchingModeName(mode)) return mode;
  }
  return InvalidArgument("batching '%s', must be continuous, dynamic or static", name);
}

const char* BatchingModeName(BatchingMode mode) {
  switch (mode) {
    case BatchingMode::kContinuous:
      return "continuous";
    case BatchingMode::kDynamic:
      return "dynamic";
    case BatchingMode::kStatic:
      break;
  }
  return "static";
}

std::vector<std::string> BatchingModeNames() { return {"continuous", "dynamic", "static"}; }

absl::StatusOr<PreemptionMode> ParsePreemptionMode(const std::string& name) {
  if (name == "auto") return PreemptionMode::kAuto;
  if (name == "swap") return PreemptionMode::kSwap;
  if (name == "recompute") return PreemptionMode::kRecompute;
  return InvalidArgument("preemption '%s', must be auto, swap or recompute", name);
}

std::vector<std::string> PreemptionModeNames() { return {"auto", "swap", "recompute"}; }

}  // namespace baton
