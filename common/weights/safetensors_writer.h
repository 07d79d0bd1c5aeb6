#pragma once

// Writes a safetensors checkpoint in one pass; memory is bounded by a few MiB and the header.

#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/weights/tensor_source.h"

namespace baton::weights {

// Never overwrites. INVALID_ARGUMENT for a format that safetensors does not have; what was begun is removed on errors.
absl::Status WriteSafetensors(const std::string& path, std::span<const TensorSource> tensors,
                              const WriteProgress& progress = nullptr);

}  // namespace baton::weights
