#pragma once

// Flags of the router, checked once at start.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/config/flags.h"
#include "common/routing/pairing.h"
#include "common/rpc/channel.h"
#include "common/rpc/otlp_exporter.h"
#include "common/rpc/server.h"

namespace baton {

struct RouterConfig {
  ServerOptions server;
  std::string metrics_host = "127.0.0.1";
  uint16_t metrics_port = 0;
  std::string log_level = "info";
  double grace_seconds = 30;

  std::vector<std::string> workers;  // host:port, each name resolved to one worker an address
  double resolve_seconds = 5;
  ChannelOptions worker_channel;

  std::string disaggregation = "auto";
  DisaggregationPolicy policy = DisaggregationPolicy::kAuto;  // of `disaggregation`
  uint32_t local_prefill_tokens = 32;
  uint32_t max_running = 1024;
  uint32_t max_waiting = 4096;
  double priority_aging_seconds = 5;
  Duration priority_aging{0};  // of `priority_aging_seconds`
  uint32_t max_attempts = 3;
  uint32_t max_prompt_kib = 4096;
  uint32_t default_max_tokens = 256;
  uint32_t max_unread_kib = 8192;
  uint32_t text_threads = 4;
  OtlpCollector collector;
  double trace_sample_ratio = 1;

  // Prompts that run or wait.
  uint32_t places() const { return max_running + max_waiting; }

  void AddTo(Flags& flags);
  absl::Status Finish();
};

}  // namespace baton
