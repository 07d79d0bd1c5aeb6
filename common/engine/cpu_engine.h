#pragma once

// The engine `cpu` of the catalogue.

#include <memory>

#include "common/engine/catalogue.h"

namespace baton {

absl::Status CheckCpuEngine(const ComputeOptions& options);

// The pool is memory of the host: INVALID_ARGUMENT for a transport that keeps it in a device's.
absl::StatusOr<ComputeModel> LoadOnCpu(std::shared_ptr<const model::Model> model, const ComputeOptions& options,
                                       KvTransport& transport, const WeightsProgress& progress);

}  // namespace baton
