#pragma once

// Models of real shapes with random weights, made in memory in a second or two whatever their size.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/dtype.h"
#include "common/model/model.h"

namespace baton {

// Matrices with equally long rows are windows, at a place of their own, into the rows of the largest of them:
// Qwen2.5-7B's 15 GB need 1.2 GB of host memory. Else the weights of model::RandomTensors; made by `threads` threads.
absl::StatusOr<std::shared_ptr<const model::Model>> MakeShapedModel(const model::ModelConfig& config, uint64_t seed,
                                                                    DType dtype, int threads);

}  // namespace baton
