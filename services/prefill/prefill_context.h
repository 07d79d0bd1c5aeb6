#pragma once

// What all calls of a prefill worker share.

#include <atomic>
#include <memory>

#include "common/handoff/sender.h"
#include "common/telemetry/log.h"
#include "services/prefill/metrics.h"
#include "services/worker/runtime.h"

namespace baton {

struct PrefillContext {
  const Logger* log = nullptr;
  PrefillMetrics* metrics = nullptr;
  std::shared_ptr<WorkerRuntime> runtime;
  std::unique_ptr<HandoffSender> sender;
  std::string transport;  // its name, for labels
  std::atomic<uint64_t> next_id{1};
  std::atomic<uint32_t> open{0};  // calls not yet ended
};

}  // namespace baton
