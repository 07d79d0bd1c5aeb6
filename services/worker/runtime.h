#pragma once

// A loaded worker: model, transport and pool, runner, engine. Built once by Load; then only its parts are used, each by
// its own threading rules.

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/text_assets.h"
#include "common/engine/catalogue.h"
#include "common/engine/engine.h"
#include "common/engine/engine_peak.h"
#include "common/engine/runner.h"
#include "common/kv/block_pool.h"
#include "common/kv/layout.h"
#include "common/kv/pool_memory.h"
#include "common/model/model_config.h"
#include "common/telemetry/log.h"
#include "common/telemetry/span.h"
#include "common/transport/kv_transport.h"
#include "services/worker/config.h"

namespace baton {

struct WorkerRuntime {
  model::ModelConfig model;
  TextAssets text;
  KvLayout layout;
  uint32_t max_model_len = 0;
  Duration max_itl{0};
  NumericsHash numerics;
  Incarnation incarnation;
  double probed_bytes_per_second = 0;  // of the transport to itself; 0: not measured
  EnginePeak peak;                     // zeros: not measured
  std::string engine_name;             // "cpu", "cuda"
  std::string weights_format;          // of the matrices in memory, "bf16"
  Duration load_time{0};
  SpanSink* spans = nullptr;  // null: none are sent; outlives the runtime

  // In the order of construction; destroyed in reverse.
  SteadyClock clock;
  std::unique_ptr<PoolMemory> memory;  // the pool's bytes
  std::unique_ptr<KvTransport> transport;
  std::unique_ptr<BlockPool> pool;
  std::unique_ptr<Runner> runner;
  std::unique_ptr<Engine> engine;

  // Reads and packs the weights, allocates the pool, starts the engine. Logs what it does and what concurrency the pool
  // allows. `on_step` runs on the step thread.
  static absl::StatusOr<std::unique_ptr<WorkerRuntime>> Load(const WorkerConfig& config, Incarnation incarnation,
                                                             const Logger& log,
                                                             std::function<void(const StepReport&)> on_step);
};

}  // namespace baton
