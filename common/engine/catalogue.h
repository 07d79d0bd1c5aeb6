#pragma once

// The list of engines by name: what computes a model, and in whose memory weights and KV pool lie.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/engine/engine_peak.h"
#include "common/engine/runner.h"
#include "common/kv/layout.h"
#include "common/kv/pool_memory.h"
#include "common/model/model.h"
#include "common/transport/kv_transport.h"

namespace baton {

struct ComputeOptions {
  std::string engine = "cpu";
  std::string weights = "auto";   // how matrices are kept
  std::string kv_dtype = "auto";  // auto: what suits the weights
  uint32_t block_size = 16;
  std::optional<double> kv_gib;  // of the pool; 0: what is free, as the engine sees it; none: the engine's default
  double swap_gib = 0;
  uint32_t max_step_tokens = 512;
  uint32_t max_batch = 64;
  uint32_t max_model_len = 0;  // of prompt and answer; what the model takes or less
  bool probe = true;           // measure what the machine could do at best

  // Flags that were set, whatever their value, by name: an engine refuses those of another.
  std::vector<std::string> given;

  // cpu
  int threads = 0;
  bool pin_threads = false;

  // cuda
  std::vector<int> devices = {0};
  double gpu_memory_utilization = 0.9;  // share of the device's memory for weights, activations and pool together
  bool cuda_graphs = true;
  bool deterministic = false;
};

// INVALID_ARGUMENT when one of `flags`, which only engine `owner` takes, was set for another.
absl::Status RefuseGiven(const ComputeOptions& options, std::string_view owner,
                         std::initializer_list<std::string_view> flags);

// Bytes of weights read so far and in total; from the calling thread.
using WeightsProgress = std::function<void(uint64_t done, uint64_t total)>;

// A model in an engine's memory, and its pool.
struct ComputeModel {
  KvLayout layout;
  // The pool. Where it is not the transport's own memory it outlives the transport; either way it outlives the runner.
  std::unique_ptr<PoolMemory> memory;
  std::unique_ptr<Runner> runner;
  EnginePeak peak;             // zeros: not measured
  std::string device;          // "cpu", or the name of the device
  std::string weights_format;  // of the matrices in memory, "bf16"
  uint64_t weights_bytes = 0;
  uint64_t activation_bytes = 0;  // what the largest step works in, taken at once; where it was measured, graphs too
};

// Also those that this build is without.
std::vector<std::string> EngineNames();

// What can be said before a model is read, quickly: INVALID_ARGUMENT for an unknown engine and for options that it does
// not take, FAILED_PRECONDITION for one that this build is without and for a device that is not there.
absl::Status CheckEngine(const ComputeOptions& options);

// Reads the weights, makes the pool in `transport` and the runner on both. Lets go of `model` when it was read.
// INVALID_ARGUMENT for what model and engine do not agree on, RESOURCE_EXHAUSTED, with the numbers, when memory does
// not hold it.
absl::StatusOr<ComputeModel> LoadOnEngine(std::shared_ptr<const model::Model> model, const ComputeOptions& options,
                                          KvTransport& transport, const WeightsProgress& progress);

}  // namespace baton
