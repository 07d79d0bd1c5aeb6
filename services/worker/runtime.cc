#include "services/worker/runtime.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/engine/pool_size.h"
#include "common/model/model.h"

namespace baton {
namespace {

// A line each ten percent, so that a log shows that a long load goes on.
std::function<void(uint64_t, uint64_t)> LogProgress(const Logger& log, const std::string& what) {
  return [&log, what, next = uint64_t{10}](uint64_t done, uint64_t total) mutable {
    const uint64_t percent = total == 0 ? 100 : done * 100 / total;
    if (percent < next) return;
    log.Info(what, {{"percent", percent}, {"bytes", done}});
    next = percent / 10 * 10 + 10;
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerRuntime>> WorkerRuntime::Load(const WorkerConfig& config, Incarnation incarnation,
                                                                   const Logger& log,
                                                                   std::function<void(const StepReport&)> on_step) {
  auto runtime = std::make_unique<WorkerRuntime>();
  const TimePoint start = runtime->clock.Now();
  runtime->incarnation = incarnation;
  BATON_RETURN_IF_ERROR(CheckEngine(config.compute));
  // Before the model, which may take minutes.
  auto transport = MakeTransport(config.transport);
  if (!transport.ok()) return WithContext(transport.status(), "transport " + config.transport.name);
  runtime->transport = *std::move(transport);
  BATON_ASSIGN_OR_RETURN(std::shared_ptr<const model::Model> model, model::LoadModel(config.model));
  runtime->model = model->config;
  runtime->text = model->text;

  EngineOptions engine = config.engine;
  const uint32_t model_limit = runtime->model.max_length;
  if (engine.max_model_len > model_limit) {
    return InvalidArgument("--max_model_len is %d, the model takes %d tokens", engine.max_model_len, model_limit);
  }
  runtime->max_model_len = engine.max_model_len ? engine.max_model_len : model_limit;
  engine.max_model_len = runtime->max_model_len;
  // Without chunks a step must hold the longest prompt.
  if (!engine.chunked_prefill) engine.max_step_tokens = std::max(engine.max_step_tokens, runtime->max_model_len);
  runtime->max_itl = engine.max_itl;

  ComputeOptions compute = config.compute;
  compute.max_batch = engine.max_batch;
  compute.max_step_tokens = engine.max_step_tokens;
  compute.max_model_len = runtime->max_model_len;
  BATON_ASSIGN_OR_RETURN(ComputeModel loaded, LoadOnEngine(std::move(model), compute, *runtime->transport,
                                                           LogProgress(log, "loading weights")));
  runtime->layout = loaded.layout;
  runtime->memory = std::move(loaded.memory);
  runtime->peak = loaded.peak;
  runtime->engine_name = compute.engine;
  runtime->weights_format = loaded.weights_format;
  runtime->runner = std::move(loaded.runner);
  runtime->numerics = runtime->runner->numerics_hash();
  const uint32_t blocks = runtime->memory->blocks();
  if (config.bandwidth_probe) {
    const absl::StatusOr<double> probed = ProbeBandwidth(*runtime->transport, runtime->memory->bytes());
    if (probed.ok()) runtime->probed_bytes_per_second = *probed;
    if (!probed.ok()) log.Warning("bandwidth probe failed", {{"error", StatusMessage(probed.status())}});
  }
  runtime->pool = std::make_unique<BlockPool>(blocks);
  runtime->engine = std::make_unique<Engine>(engine, runtime->layout, runtime->runner.get(), runtime->pool.get(),
                                             &runtime->clock, std::move(on_step));

  runtime->load_time = runtime->clock.Now() - start;
  const double pool_tokens = double{1} * blocks * runtime->layout.block_size;
  log.Info("model loaded", {{"model", config.model_name},
                            {"architecture", runtime->model.architecture},
                            {"seconds", Seconds(runtime->load_time)},
                            {"engine", runtime->engine_name},
                            {"device", loaded.device},
                            {"weights", runtime->weights_format},
                            {"weights_bytes", loaded.weights_bytes},
                            {"activation_bytes", loaded.activation_bytes},
                            {"kv_dtype", DTypeName(runtime->layout.dtype)},
                            {"kv_pool_gib", static_cast<double>(runtime->memory->bytes()) / kGiB},
                            {"kv_blocks", blocks},
                            {"swap_blocks", runtime->runner->swap_slots()},
                            {"kv_block_bytes", runtime->layout.BytesPerBlock()},
                            {"max_model_len", runtime->max_model_len},
                            {"concurrency_at_max_model_len", pool_tokens / runtime->max_model_len},
                            {"transport", runtime->transport->name()},
                            {"transport_bytes_per_second", runtime->probed_bytes_per_second},
                            {"peak_flops_per_second", runtime->peak.flops_per_second},
                            {"peak_bytes_per_second", runtime->peak.bytes_per_second}});
  return runtime;
}

}  // namespace baton
