#pragma once

// JSON files beside weights, read with limits.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace baton::weights {

// The whole file; FAILED_PRECONDITION with both numbers when it is longer than `limit` bytes.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, uint64_t limit);

// An object at the top, nesting up to 64, valid UTF-8; INVALID_ARGUMENT naming `path` otherwise.
absl::StatusOr<nlohmann::json> ParseJsonObject(const std::string& text, const std::string& path);

}  // namespace baton::weights
