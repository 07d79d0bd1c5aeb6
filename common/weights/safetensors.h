#pragma once

// Reader of safetensors checkpoints. Nothing in a file is believed: the header is capped, every offset is compared with
// shape, format and file size, every data byte belongs to exactly one tensor (so cut and padded files are refused).
// Memory is bounded by the header's size. Errors are one line naming file, tensor and numbers.

#include <string>

#include "absl/status/statusor.h"
#include "common/weights/tensor.h"

namespace baton::weights {

absl::StatusOr<TensorMap> ReadSafetensorsFile(const std::string& path);

// `index_path`: a model.safetensors.index.json. Reads every shard it names from its own directory; NOT_FOUND lists the
// missing ones. Each indexed tensor must lie in the shard the index names, and in no other.
absl::StatusOr<TensorMap> ReadShardedSafetensors(const std::string& index_path);

}  // namespace baton::weights
