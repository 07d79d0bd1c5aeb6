#include "services/worker/config.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr size_t kMaxModelNameBytes = 256;

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// One device a rank: those that were named, else the first.
absl::StatusOr<std::vector<int>> ParseDevices(const std::vector<std::string>& texts, uint32_t ranks) {
  std::vector<int> devices;
  for (const std::string& text : texts) {
    if (!absl::SimpleAtoi(text, &devices.emplace_back()) || devices.back() < 0) {
      return InvalidArgument("--device is '%s', must be the ordinal of a CUDA device", text);
    }
    if (std::find(devices.begin(), devices.end() - 1, devices.back()) != devices.end() - 1) {
      return InvalidArgument("--device names %d twice; every rank takes a device of its own", devices.back());
    }
  }
  if (devices.empty()) {
    for (uint32_t rank = 0; rank < ranks; ++rank) devices.push_back(static_cast<int>(rank));
  }
  if (devices.size() != ranks) {
    return InvalidArgument("--device names %d devices and --tensor_parallel is %d", devices.size(), ranks);
  }
  return devices;
}

}  // namespace

void WorkerConfig::AddTo(Flags& flags) {
  AddServerFlags(flags, server);
  flags.Add("metrics_host", &metrics_host, "Address to serve /metrics on.");
  flags.Add("metrics_port", &metrics_port, "Port to serve /metrics on; 0 takes a free one.");
  flags.AddChoice("log_level", &log_level, {"debug", "info", "warning", "error"}, "Least severe level to log.");
  flags.Add("grace_seconds", &grace_seconds, "Time that running work gets to finish after SIGTERM.", 0, 86400);
  flags.Add("stall_seconds", &stall_seconds, "Time without an engine step, while there is work, that ends liveness.", 1,
            86400);

  flags.Add("model", &model, "Directory with config.json and safetensors, or a .gguf file.");
  flags.Require("model");
  flags.Add("model_name", &model_name, "Name that clients ask for; default: the last part of the path.");
  flags.AddChoice("engine", &compute.engine, EngineNames(), "What computes, and in whose memory.");
  flags.AddChoice("weights", &compute.weights, {"auto", "f32", "bf16", "f16", "int8", "int4"},
                  "How matrices are kept in memory; engine cuda takes auto, f32, bf16 and f16.");
  flags.AddChoice("kv_dtype", &compute.kv_dtype, {"auto", "f32", "bf16", "f16", "int8", "fp8"},
                  "KV cache format; auto: the weights' own 16-bit format, f32 for f32 files, f16 for quantised ones. "
                  "Engine cpu takes no fp8; engine cuda takes the weights' own and, of 16-bit ones, fp8, without "
                  "scales: beyond 448 clipped.");
  flags.Add("threads", &threads, "Threads of the CPU engine; 0: one for each core this process may use.", 0, 1024);
  flags.Add("tensor_parallel", &tensor_parallel,
            "Engine cuda: devices that compute together, each with its share of weights and KV.", 1, 64);
  flags.Add("device", &devices,
            "Engine cuda: ordinals of its CUDA devices, as many as --tensor_parallel; default: the first ones.");
  flags.Add("gpu_memory_utilization", &compute.gpu_memory_utilization,
            "Engine cuda: share of the device's memory for weights, activations and KV pool together.", 0.01, 1);
  flags.Add("cuda_graphs", &compute.cuda_graphs,
            "Engine cuda: record decode steps at start and replay them; off: enqueue every kernel of every step.");
  flags.Add(
      "deterministic", &compute.deterministic,
      "Engine cuda: tokens that do not depend on what else is in the batch, for some speed; the CPU engine's never "
      "do.");
  flags.Add("engine_probe", &compute.probe,
            "Measure at start how fast this machine computes and reads weights, and export the result.");
  flags.Add("pin_threads", &compute.pin_threads, "Bind the engine's threads to cores.");

  flags.Add("kv_gib", &compute.kv_gib,
            "Size of the KV pool, GiB; 0: on the CPU 40% of the memory available after loading, on engine cuda what "
            "--gpu_memory_utilization leaves. Default: 1 on the CPU, 0 on engine cuda.",
            0, 65536);
  flags.Add("block_size", &compute.block_size, "Tokens in a KV block, 16 or 32.", 16, 32);
  flags.Add("max_model_len", &engine.max_model_len,
            "Longest prompt and answer together, tokens; 0: what the model takes.", 0, 1u << 24);
  flags.Add("max_batch", &engine.max_batch, "Sequences in a step.", 1, 4096);
  flags.Add("max_step_tokens", &engine.max_step_tokens, "Token budget of a step.", 1, 1u << 20);
  flags.Add("chunk_tokens", &engine.chunk_tokens, "Most prompt tokens of one sequence in a step.", 1, 1u << 20);
  flags.Add("chunked_prefill", &engine.chunked_prefill,
            "Split prompts into chunks; off: one step reads a whole prompt.");
  flags.Add("prefix_cache", &engine.prefix_cache, "Keep KV of finished requests for prompts with the same beginning.");
  flags.AddChoice(
      "batching", &batching, BatchingModeNames(),
      "When sequences join a batch: at every step, or only when the last batch has ended; dynamic then waits "
      "for a full one up to --batch_timeout_ms.");
  flags.Add("batch_timeout_ms", &batch_timeout_ms, "Longest wait of a request for its dynamic batch to fill.", 0,
            60000);
  flags.Add("priority_aging_seconds", &priority_aging_seconds,
            "Waiting time that is worth one level of priority; 0: urgent requests may starve others.", 0, 3600);
  flags.Add("max_itl_ms", &max_itl_ms,
            "Target for the gap between two tokens of a stream while prompts are read beside it, which limits a step's "
            "prompt tokens (never below 16); 0: no target.",
            0, 600000);
  flags.AddChoice("preemption", &preemption, PreemptionModeNames(),
                  "How a preempted sequence gets its KV back: from the swap area, computed again, or what costs less.");
  flags.Add(
      "swap_gib", &compute.swap_gib,
      "Host memory for the KV of preempted sequences, GiB; 0: none. Taken as it is used, by engine cuda pinned at "
      "start.",
      0, 65536);
  flags.Add("kv_cache", &engine.kv_cache,
            "Keep KV between steps; off: every token runs its whole sequence again, for comparison.");
  flags.Add("watermark", &engine.watermark, "Share of the pool kept available when a prompt is let through.", 0, 0.5);

  flags.AddChoice("transport", &transport.name, TransportNames(), "How KV blocks move between workers.");
  flags.Add("bind_host", &transport.bind_host, "Address of this machine that other workers reach it by.");
  flags.Add("ucx_tls", &transport.ucx_tls, "UCX_TLS; empty: shared memory on one host, tcp or RDMA between hosts.");
  flags.Add("ucx_devices", &transport.ucx_devices, "UCX_NET_DEVICES; empty: the interface of --bind_host.");
  flags.Add("message_puts", &transport.message_puts,
            "Send blocks as messages that the receiver can refuse, also where shared memory or RDMA would do without.");
  flags.Add("bandwidth_probe", &bandwidth_probe, "Measure the transport at start and export the result.");
  flags.Add("allow_mixed_numerics", &control.allow_mixed_numerics,
            "Hand over also between workers of unequal numerics and equal KV layout, as of engine cuda and engine cpu, "
            "where both allow it; tokens then depend on the pair.");
  AddTracingFlags(flags, collector);
  flags.Add("heartbeat_seconds", &heartbeat_seconds, "Heartbeat of the control connection.", 0.01, 60);
  flags.Add("suspect_seconds", &suspect_seconds, "Silence after which a peer is suspect.", 0.05, 600);
}

absl::Status WorkerConfig::Finish(const Flags& flags) {
  if (compute.block_size != 16 && compute.block_size != 32)
    return InvalidArgument("--block_size is %d, must be 16 or 32", compute.block_size);
  if (suspect_seconds <= 2 * heartbeat_seconds) {
    return InvalidArgument("--suspect_seconds is %g, must exceed two heartbeats of %g s", suspect_seconds,
                           heartbeat_seconds);
  }
  BATON_ASSIGN_OR_RETURN(engine.batching, ParseBatchingMode(batching));
  engine.batch_timeout = FromSeconds(batch_timeout_ms / 1000);
  engine.priority_aging = FromSeconds(priority_aging_seconds);
  engine.max_itl = FromSeconds(max_itl_ms / 1000);
  BATON_ASSIGN_OR_RETURN(engine.preemption, ParsePreemptionMode(preemption));
  if (preemption == "swap" && compute.swap_gib == 0) {
    return InvalidArgument("--preemption is swap and --swap_gib 0; swapping needs host memory");
  }
  compute.given = flags.Given();
  compute.threads = static_cast<int>(threads);
  BATON_ASSIGN_OR_RETURN(compute.devices, ParseDevices(devices, tensor_parallel));
  transport.device = compute.devices.front();
  transport.device_pool = compute.engine == "cuda";
  control.heartbeat = FromSeconds(heartbeat_seconds);
  control.suspect_after = FromSeconds(suspect_seconds);
  if (model_name.empty()) {
    std::string path = model;
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    model_name = path.substr(path.rfind('/') + 1);
  }
  // It is a label of every metric and stands in errors and tables.
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (model_name.size() > kMaxModelNameBytes || FirstInvalidUtf8(model_name) ||
      std::ranges::any_of(model_name, control)) {
    return InvalidArgument("--model_name has %d bytes, must be 1 to %d of UTF-8 without control characters",
                           model_name.size(), kMaxModelNameBytes);
  }
  if (engine.max_model_len == 1) {
    return InvalidArgument("--max_model_len is 1, must hold at least 2 tokens: one of a prompt and one of an answer");
  }
  return absl::OkStatus();
}

}  // namespace baton
