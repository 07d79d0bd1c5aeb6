#pragma once

// The engine `cuda` of the catalogue.

#include <memory>

#include "common/engine/catalogue.h"

namespace baton {

// FAILED_PRECONDITION "no CUDA device" without one.
absl::Status CheckCudaEngine(const ComputeOptions& options);

// The pool is memory of the devices. What --kv_gib does not say is sized from --gpu_memory_utilization: that share of
// the device's memory, less what weights, activations, graphs and CUDA's libraries take. That is measured, on an engine
// with a pool of a few blocks which runs its largest step and is thrown away, so that memory does not run out later.
// CUDA's context, some hundred MiB, is there before anything can be measured and comes on top of the share.
absl::StatusOr<ComputeModel> LoadOnCuda(std::shared_ptr<const model::Model> model, const ComputeOptions& options,
                                        KvTransport& transport, const WeightsProgress& progress);

}  // namespace baton
