#pragma once

// What all calls of a decode worker share.

#include <atomic>
#include <memory>

#include "common/handoff/receiver.h"
#include "common/telemetry/log.h"
#include "services/decode/metrics.h"
#include "services/worker/runtime.h"

namespace baton {

struct DecodeContext {
  const Logger* log = nullptr;
  DecodeMetrics* metrics = nullptr;
  std::shared_ptr<WorkerRuntime> runtime;
  std::shared_ptr<HandoffReceiver> receiver;
  bool prefix_cache = true;
  double lease_seconds = 0;
  std::atomic<uint64_t> next_id{1};
  std::atomic<uint32_t> open{0};  // calls not yet ended
};

}  // namespace baton
