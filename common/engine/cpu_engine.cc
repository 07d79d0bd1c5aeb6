#include "common/engine/cpu_engine.h"

#include <algorithm>
#include <optional>
#include <string>

#include "common/base/host_memory.h"
#include "common/base/status.h"
#include "common/engine/cpu_runner.h"
#include "common/engine/cpu_weights.h"
#include "common/engine/pool_size.h"
#include "common/kv/host_pool.h"

namespace baton {
namespace {

constexpr Duration kProbeTime = std::chrono::milliseconds(25);  // of operations and bytes each: a start should not wait
constexpr double kDefaultPoolGiB = 1;
constexpr double kShareOfAvailable = 0.4;

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

// What the pool may take beside a step's activations. Both are refused before a page of either is touched: filling the
// machine's memory would cost other processes theirs.
absl::StatusOr<double> PoolBytes(const ComputeOptions& options, uint64_t activation_bytes) {
  const std::optional<uint64_t> known = AvailableMemory();
  const auto available = static_cast<double>(known.value_or(0));
  const auto activations = static_cast<double>(activation_bytes);
  if (known && activations > available) {
    return ResourceExhausted(
        "a step of %d tokens and %d sequences (--max_step_tokens, --max_batch) takes %.3f GiB of activations; %.3f GiB "
        "of memory are available",
        options.max_step_tokens, options.max_batch, activations / kGiB, available / kGiB);
  }
  const double left = available - activations;
  const double gib = options.kv_gib.value_or(kDefaultPoolGiB);
  const double bytes = gib > 0 ? gib * kGiB : kShareOfAvailable * std::max(left, 0.0);
  if (known && bytes > left) {
    return ResourceExhausted(
        "--kv_gib asks for a KV pool of %.3f GiB; %.3f GiB of memory are available beside %.3f GiB of activations",
        bytes / kGiB, left / kGiB, activations / kGiB);
  }
  return bytes;
}

// Not ignored silently: who sets them believes in an engine that is not there.
absl::Status RefuseCudaOptions(const ComputeOptions& options) {
  const ComputeOptions unset;
  if (options.devices.size() > 1) {
    return InvalidArgument("--tensor_parallel is %d; engine cpu computes as one rank, only engine cuda takes more",
                           options.devices.size());
  }
  if (options.devices != unset.devices) {
    return InvalidArgument("--device is %d; engine cpu uses no CUDA device, only engine cuda takes it",
                           options.devices.front());
  }
  if (options.gpu_memory_utilization != unset.gpu_memory_utilization) {
    return InvalidArgument("--gpu_memory_utilization is %g; only engine cuda takes it, engine cpu takes --kv_gib",
                           options.gpu_memory_utilization);
  }
  if (options.cuda_graphs != unset.cuda_graphs) {
    return InvalidArgument("--cuda_graphs is false; engine cpu has none, only engine cuda takes it");
  }
  if (options.deterministic != unset.deterministic) {
    return InvalidArgument(
        "--deterministic is true; only engine cuda takes it, tokens of engine cpu never depend on the batch");
  }
  return RefuseGiven(options, "cuda",
                     {"tensor_parallel", "device", "gpu_memory_utilization", "cuda_graphs", "deterministic"});
}

}  // namespace

absl::Status CheckCpuEngine(const ComputeOptions& options) {
  BATON_RETURN_IF_ERROR(RefuseCudaOptions(options));
  if (options.kv_dtype == DTypeName(DType::kF8)) {
    return InvalidArgument("--kv_dtype is fp8; engine cpu takes auto, f32, bf16, f16 and int8");
  }
  return ParseWeightsFormat(options.weights).status();
}

absl::StatusOr<ComputeModel> LoadOnCpu(std::shared_ptr<const model::Model> model, const ComputeOptions& options,
                                       KvTransport& transport, const WeightsProgress& progress) {
  BATON_ASSIGN_OR_RETURN(const WeightsFormat format, ParseWeightsFormat(options.weights));
  const DType model_dtype = model->config.dtype;
  BATON_ASSIGN_OR_RETURN(const std::shared_ptr<const CpuWeights> weights,
                         PackCpuWeights(*model, format, options.threads, progress));
  model.reset();
  ComputeModel loaded;
  loaded.layout = MakeKvLayout(weights->config, KvDType(options.kv_dtype, model_dtype), options.block_size);
  loaded.device = "cpu";
  loaded.weights_format = DTypeName(weights->lm_head.dtype);
  loaded.weights_bytes = weights->matrix_bytes;
  CpuRunnerOptions runner;
  runner.threads = options.threads;
  runner.pin_threads = options.pin_threads;
  runner.max_batch = options.max_batch;
  runner.max_step_tokens = options.max_step_tokens;
  BATON_ASSIGN_OR_RETURN(runner.swap_slots, SwapBlocks(options.swap_gib, loaded.layout));
  loaded.activation_bytes = CpuRunner::ActivationBytes(weights->config, runner);
  BATON_ASSIGN_OR_RETURN(const double bytes, PoolBytes(options, loaded.activation_bytes));
  BATON_ASSIGN_OR_RETURN(const uint32_t blocks, PoolBlocks(bytes, loaded.layout));
  BATON_ASSIGN_OR_RETURN(const std::span<std::byte> memory,
                         transport.AllocatePool(uint64_t{blocks} * loaded.layout.BytesPerBlock()));
  loaded.memory = std::make_unique<HostPool>(loaded.layout, memory);
  if (options.probe) loaded.peak = ProbeCpuPeak(*weights, options.threads, kProbeTime);
  BATON_ASSIGN_OR_RETURN(loaded.runner, CpuRunner::Create(weights, loaded.layout, memory, runner));
  return loaded;
}

}  // namespace baton
