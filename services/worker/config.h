#pragma once

// Flags that both workers take, checked once at start.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/config/flags.h"
#include "common/engine/catalogue.h"
#include "common/engine/engine.h"
#include "common/rpc/otlp_exporter.h"
#include "common/rpc/server.h"
#include "common/transport/catalogue.h"
#include "common/transport/control_connection.h"

namespace baton {

struct WorkerConfig {
  ServerOptions server;
  std::string metrics_host = "127.0.0.1";
  uint16_t metrics_port = 0;
  std::string log_level = "info";
  double grace_seconds = 30;  // a drain's
  double stall_seconds = 60;  // a step loop without progress for so long turns liveness off

  std::string model;       // path
  std::string model_name;  // as clients ask for it; empty: the path's last part
  uint32_t threads = 0;
  uint32_t tensor_parallel = 1;
  std::vector<std::string> devices;
  ComputeOptions compute;

  std::string batching = "continuous";
  double batch_timeout_ms = 50;
  double priority_aging_seconds = 5;
  double max_itl_ms = 250;
  std::string preemption = "auto";
  EngineOptions engine;

  TransportOptions transport;
  ControlOptions control;
  double heartbeat_seconds = 0.5;
  double suspect_seconds = 3;
  bool bandwidth_probe = true;
  OtlpCollector collector;

  void AddTo(Flags& flags);
  // What flags alone cannot check, once they were parsed; fills the fields derived from others.
  absl::Status Finish(const Flags& flags);
};

}  // namespace baton
