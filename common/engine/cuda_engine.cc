#include "common/engine/cuda_engine.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/device/device.h"
#include "common/engine/cuda_peak.h"
#include "common/engine/cuda_pool.h"
#include "common/engine/cuda_runner.h"
#include "common/engine/cuda_weights.h"
#include "common/engine/pool_size.h"
#include "common/sampling/sampler.h"
#include "kernels/cuda/gemm.h"

namespace baton {
namespace {

// What the kernels compute with.
constexpr DType kFormats[] = {DType::kF32, DType::kBF16, DType::kF16};

struct Formats {
  DType weights, kv;
};

// auto: the file's own format; what it has in another one becomes f16, as it does in the CPU engine's KV.
absl::StatusOr<Formats> FormatsOf(const ComputeOptions& options, DType of_model) {
  DType weights = DType::kF16;
  bool taken = options.weights == "auto";
  for (const DType dtype : kFormats) {
    if (options.weights == DTypeName(dtype) || (options.weights == "auto" && of_model == dtype)) {
      weights = dtype;
      taken = true;
    }
  }
  if (!taken) return InvalidArgument("--weights is %s; engine cuda takes auto, f32, bf16 and f16", options.weights);
  if (options.kv_dtype == "auto") return Formats{weights, weights};
  for (const DType kv : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8}) {
    if (options.kv_dtype == DTypeName(kv) && CudaStoresKv(kv, weights)) return Formats{weights, kv};
  }
  return InvalidArgument(
      "--kv_dtype is %s and the weights are %s; engine cuda keeps KV in the weights' format or, of bf16 and f16, as "
      "fp8",
      options.kv_dtype, DTypeName(weights));
}

absl::StatusOr<std::vector<device::DeviceInfo>> OpenAll(const ComputeOptions& options) {
  std::vector<device::DeviceInfo> devices;
  for (const int ordinal : options.devices) {
    BATON_ASSIGN_OR_RETURN(devices.emplace_back(), device::Open(ordinal));
  }
  BATON_RETURN_IF_ERROR(device::Use(options.devices.front()));
  return devices;
}

// What this process may take of a device.
double Share(const ComputeOptions& options, const device::DeviceInfo& device) {
  return options.gpu_memory_utilization * static_cast<double>(device.total_bytes);
}

std::vector<uint64_t> FreeBytes(const std::vector<device::DeviceInfo>& devices) {
  std::vector<uint64_t> bytes;
  for (const device::DeviceInfo& device : devices) bytes.push_back(device.free_bytes);
  return bytes;
}

// Device memory, device by device.
struct MemoryUse {
  std::vector<uint64_t> free_at_start;  // the context was there
  std::vector<uint64_t> free;           // with the weights
  std::vector<uint64_t> working;        // what the engine takes beside weights and KV
};

// Bytes that --gpu_memory_utilization leaves for KV on each device, where they leave least.
absl::StatusOr<double> BytesLeft(const ComputeOptions& options, const std::vector<device::DeviceInfo>& devices,
                                 const MemoryUse& use, uint64_t block_bytes) {
  double least = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    const double share = Share(options, devices[i]);
    const auto free = static_cast<double>(use.free[i]), working = static_cast<double>(use.working[i]);
    const double weights = static_cast<double>(use.free_at_start[i]) - free;
    const double left = std::min(share - weights, free) - working;
    if (left < kMinPoolBlocks * static_cast<double>(block_bytes)) {
      return ResourceExhausted(
          "--gpu_memory_utilization %g of device %d's %.3f GiB, %.3f GiB of which are free, is %.3f GiB; weights take "
          "%.3f GiB, activations and graphs %.3f GiB, which leaves %.3f GiB for KV, and a pool takes %d blocks of %d "
          "bytes",
          options.gpu_memory_utilization, options.devices[i], static_cast<double>(devices[i].total_bytes) / kGiB,
          static_cast<double>(use.free_at_start[i]) / kGiB, share / kGiB, weights / kGiB, working / kGiB, left / kGiB,
          kMinPoolBlocks, block_bytes);
    }
    least = i == 0 ? left : std::min(least, left);
  }
  return least;
}

// The largest step that a runner takes, with sampling: what CUDA and its libraries load or allocate when they are first
// used is there afterwards. Writes over the pool.
absl::Status RunLargestStep(Runner& runner, const ComputeOptions& options, const KvLayout& layout) {
  const uint32_t each = std::min(runner.max_step_tokens(), options.max_model_len);
  const std::vector<TokenId> tokens(each, 0);
  std::vector<BlockId> blocks(layout.BlocksFor(each));
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<BlockId>(i % kMinPoolBlocks);
  SamplingParams params;
  params.top_k = 2;  // what is drawn does not matter
  const size_t most = std::min(runner.max_batch(), (runner.max_step_tokens() + each - 1) / each);
  std::vector<Sampler> samplers;
  samplers.reserve(most);
  std::vector<StepSample> samples(most);
  std::vector<StepSequence> batch;
  for (uint32_t left = runner.max_step_tokens(); left > 0 && batch.size() < most; left -= std::min(left, each)) {
    StepSample& sample = samples[batch.size()];
    sample.sampler = &samplers.emplace_back(params, 0, runner.vocab_size(), tokens, std::span<const TokenId>());
    batch.push_back(
        {.tokens = std::span(tokens).first(std::min(left, each)), .blocks = blocks, .samples = {&sample, 1}});
  }
  return runner.Step(batch, {});
}

// What the engine takes of each device beside the weights in `use` and KV, by making one with the smallest pool: so
// graphs count, what libraries allocate, and what nobody thought of.
absl::StatusOr<std::vector<uint64_t>> MeasureWorking(const ComputeOptions& options, const MemoryUse& use,
                                                     const std::vector<std::shared_ptr<const CudaWeights>>& shards,
                                                     const KvLayout& layout, CudaRunnerOptions runner_options) {
  runner_options.swap_blocks = 0;  // of the host
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<CudaPool> pool,
                         CudaPool::Create(layout, kMinPoolBlocks, options.devices));
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<CudaRunner> runner, CudaRunner::Create(shards, *pool, runner_options));
  BATON_RETURN_IF_ERROR(RunLargestStep(*runner, options, layout));
  BATON_ASSIGN_OR_RETURN(const std::vector<device::DeviceInfo> now, OpenAll(options));
  std::vector<uint64_t> working;
  for (size_t i = 0; i < now.size(); ++i) {
    // Another process may have given memory back meanwhile.
    const uint64_t kept = now[i].free_bytes + pool->rank_memory(i).size();
    working.push_back(use.free[i] > kept ? use.free[i] - kept : 0);
  }
  return working;
}

}  // namespace

absl::Status CheckCudaEngine(const ComputeOptions& options) {
  BATON_RETURN_IF_ERROR(RefuseGiven(options, "cpu", {"threads", "pin_threads"}));
  BATON_RETURN_IF_ERROR(FormatsOf(options, DType::kBF16).status());
  BATON_RETURN_IF_ERROR(OpenAll(options).status());
  if (!cuda::Gemm::LibraryFound()) return FailedPrecondition("cuBLASLt's shared library was not found");
  return absl::OkStatus();
}

absl::StatusOr<ComputeModel> LoadOnCuda(std::shared_ptr<const model::Model> model, const ComputeOptions& options,
                                        KvTransport& transport, const WeightsProgress& progress) {
  BATON_ASSIGN_OR_RETURN(const Formats formats, FormatsOf(options, model->config.dtype));
  const DType dtype = formats.weights;
  BATON_ASSIGN_OR_RETURN(const std::vector<device::DeviceInfo> devices, OpenAll(options));
  ComputeModel loaded;
  loaded.device = devices.front().name;
  loaded.weights_format = DTypeName(dtype);
  if (options.probe) {
    BATON_ASSIGN_OR_RETURN(loaded.peak, ProbeCudaPeak(dtype));
  }

  // Tables of positions, and room for attention over them, no longer than what is served.
  model::Model served = *std::exchange(model, nullptr);
  served.config.max_length = options.max_model_len;
  BATON_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<const CudaWeights>> shards,
                         LoadCudaShards(served, dtype, options.devices, progress));
  for (const auto& shard : shards) loaded.weights_bytes += shard->matrix_bytes;
  loaded.layout = CudaKvLayout(served.config, formats.kv, options.block_size);
  CudaRunnerOptions runner;
  runner.max_batch = options.max_batch;
  runner.max_step_tokens = options.max_step_tokens;
  runner.graphs = options.cuda_graphs;
  runner.deterministic = options.deterministic;
  BATON_ASSIGN_OR_RETURN(runner.swap_blocks, SwapBlocks(options.swap_gib, loaded.layout));
  loaded.activation_bytes = CudaRunner::ActivationBytes(shards.front(), loaded.layout, runner);

  double bytes = options.kv_gib.value_or(0) * kGiB;
  if (bytes == 0) {
    const uint64_t block_bytes = loaded.layout.BytesPerBlock() / shards.size();
    BATON_ASSIGN_OR_RETURN(const std::vector<device::DeviceInfo> now, OpenAll(options));
    MemoryUse use{FreeBytes(devices), FreeBytes(now), std::vector<uint64_t>(devices.size(), loaded.activation_bytes)};
    BATON_RETURN_IF_ERROR(BytesLeft(options, now, use, block_bytes).status());  // without trying, where it is clear
    BATON_ASSIGN_OR_RETURN(use.working, MeasureWorking(options, use, shards, loaded.layout, runner));
    loaded.activation_bytes = std::max(loaded.activation_bytes, use.working.front());
    BATON_ASSIGN_OR_RETURN(const double left, BytesLeft(options, now, use, block_bytes));
    bytes = left * static_cast<double>(shards.size());
  }
  BATON_ASSIGN_OR_RETURN(const uint32_t blocks, PoolBlocks(bytes, loaded.layout));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<CudaPool> pool, CudaPool::Create(loaded.layout, blocks, options.devices));
  BATON_ASSIGN_OR_RETURN(loaded.runner, CudaRunner::Create(shards, *pool, runner));
  loaded.memory = std::move(pool);
  // Last: the pool outlives a transport that has it, so nothing may fail and take it away afterwards.
  BATON_RETURN_IF_ERROR(transport.UsePool(loaded.memory.get()));
  return loaded;
}

}  // namespace baton
