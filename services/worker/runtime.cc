#include "services/worker/runtime.h"

#include <algorithm>
#include <fstream>

#include "common/base/status.h"
#include "common/engine/cpu_runner.h"
#include "common/engine/cpu_weights.h"
#include "common/model/model.h"

namespace baton {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

absl::StatusOr<WeightsFormat> ParseWeightsFormat(const std::string& name) {
  for (const WeightsFormat format : kWeightsFormats) {
    if (name == WeightsFormatName(format)) return format;
  }
  return InvalidArgument("--weights is '%s', must be auto, f32, bf16, f16, int8 or int4", name);
}

DType KvDType(const std::string& name, DType weights) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8}) {
    if (name == DTypeName(dtype)) return dtype;
  }
  switch (weights) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return weights;
    default:
      return DType::kF16;
  }
}

uint64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (uint64_t kib; file >> key >> kib; std::getline(file, unit)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

absl::StatusOr<uint32_t> PoolBlocks(const WorkerConfig& config, const KvLayout& layout) {
  const uint64_t available = AvailableMemory();
  const double bytes = config.kv_gib > 0 ? config.kv_gib * kGiB : 0.4 * static_cast<double>(available);
  // Refused before a page of it is touched: filling the machine's memory would cost other processes theirs.
  if (available > 0 && bytes > static_cast<double>(available)) {
    return ResourceExhausted("--kv_gib asks for a KV pool of %.3f GiB; %.3f GiB of memory are available", bytes / kGiB,
                             static_cast<double>(available) / kGiB);
  }
  const uint64_t blocks = static_cast<uint64_t>(bytes) / layout.BytesPerBlock();
  if (blocks < 4 || blocks > UINT32_MAX) {
    return InvalidArgument("a KV pool of %.3f GiB holds %d blocks of %d bytes; between 4 and %d are possible",
                           bytes / kGiB, blocks, layout.BytesPerBlock(), UINT32_MAX);
  }
  return static_cast<uint32_t>(blocks);
}

absl::StatusOr<uint32_t> SwapSlots(const WorkerConfig& config, const KvLayout& layout) {
  const double blocks = config.swap_gib * kGiB / static_cast<double>(layout.BytesPerBlock());
  if (blocks > UINT32_MAX || (config.swap_gib > 0 && blocks < 1)) {
    return InvalidArgument("--swap_gib %g holds %.0f blocks of %d bytes; between 1 and %d are possible",
                           config.swap_gib, blocks, layout.BytesPerBlock(), UINT32_MAX);
  }
  return static_cast<uint32_t>(blocks);
}

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
  BATON_ASSIGN_OR_RETURN(const WeightsFormat format, ParseWeightsFormat(config.weights));
  // Before the model, which may take minutes.
  auto transport = MakeTransport(config.transport);
  if (!transport.ok()) return WithContext(transport.status(), "transport " + config.transport.name);
  runtime->transport = *std::move(transport);
  if (runtime->transport->capabilities().device_memory) {
    return InvalidArgument("transport %s keeps the pool in a device's memory, which engine %s does not read",
                           config.transport.name, config.engine_name);
  }
  std::shared_ptr<const CpuWeights> weights;
  {
    BATON_ASSIGN_OR_RETURN(const std::shared_ptr<const model::Model> model, model::LoadModel(config.model));
    runtime->model = model->config;
    runtime->text = model->text;
    BATON_ASSIGN_OR_RETURN(
        weights, PackCpuWeights(*model, format, static_cast<int>(config.threads), LogProgress(log, "packing weights")));
  }

  const uint32_t model_limit = runtime->model.max_length;
  if (config.engine.max_model_len > model_limit) {
    return InvalidArgument("--max_model_len is %d, the model takes %d tokens", config.engine.max_model_len,
                           model_limit);
  }
  runtime->max_model_len = config.engine.max_model_len ? config.engine.max_model_len : model_limit;
  runtime->layout = MakeKvLayout(runtime->model, KvDType(config.kv_dtype, runtime->model.dtype), config.block_size);

  BATON_ASSIGN_OR_RETURN(const uint32_t blocks, PoolBlocks(config, runtime->layout));
  BATON_ASSIGN_OR_RETURN(runtime->memory,
                         runtime->transport->AllocatePool(uint64_t{blocks} * runtime->layout.BytesPerBlock()));
  if (config.bandwidth_probe) {
    const absl::StatusOr<double> probed = ProbeBandwidth(*runtime->transport, runtime->memory.size());
    if (probed.ok()) runtime->probed_bytes_per_second = *probed;
    if (!probed.ok()) log.Warning("bandwidth probe failed", {{"error", StatusMessage(probed.status())}});
  }
  runtime->pool = std::make_unique<BlockPool>(blocks);

  EngineOptions engine = config.engine;
  runtime->max_itl = engine.max_itl;
  engine.max_model_len = runtime->max_model_len;
  CpuRunnerOptions runner;
  runner.threads = static_cast<int>(config.threads);
  runner.pin_threads = config.pin_threads;
  runner.max_batch = engine.max_batch;
  // Without chunks a step must hold the longest prompt.
  if (!engine.chunked_prefill) engine.max_step_tokens = std::max(engine.max_step_tokens, runtime->max_model_len);
  runner.max_step_tokens = engine.max_step_tokens;
  BATON_ASSIGN_OR_RETURN(runner.swap_slots, SwapSlots(config, runtime->layout));
  if (config.engine_probe) runtime->peak = ProbeCpuPeak(*weights, runner.threads);
  runtime->engine_name = config.engine_name;
  runtime->weights_format = DTypeName(weights->lm_head.dtype);
  BATON_ASSIGN_OR_RETURN(runtime->runner, CpuRunner::Create(weights, runtime->layout, runtime->memory, runner));
  runtime->numerics = runtime->runner->numerics_hash();
  runtime->engine = std::make_unique<Engine>(engine, runtime->layout, runtime->runner.get(), runtime->pool.get(),
                                             &runtime->clock, std::move(on_step));

  runtime->load_time = runtime->clock.Now() - start;
  const double pool_tokens = double{1} * blocks * runtime->layout.block_size;
  log.Info("model loaded", {{"model", config.model_name},
                            {"architecture", runtime->model.architecture},
                            {"seconds", Seconds(runtime->load_time)},
                            {"weights_bytes", weights->matrix_bytes},
                            {"kv_dtype", DTypeName(runtime->layout.dtype)},
                            {"kv_pool_gib", static_cast<double>(runtime->memory.size()) / kGiB},
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
