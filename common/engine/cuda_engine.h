#pragma once

// The engine `cuda` of the catalogue.

#include <memory>

#include "common/engine/catalogue.h"

namespace baton {

// FAILED_PRECONDITION "no CUDA device" without one.
absl::Status CheckCudaEngine(const ComputeOptions& options);

// The pool is memory of the devices. What --kv_gib does not say is sized from --gpu_memory_utilization: that share of
// the device's memory, less what weights and activations take.
absl::StatusOr<ComputeModel> LoadOnCuda(std::shared_ptr<const model::Model> model, const ComputeOptions& options,
                                        KvTransport& transport, const WeightsProgress& progress);

}  // namespace baton
