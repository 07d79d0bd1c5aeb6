#pragma once

// The JSON header of a safetensors file, parsed without building a tree, so that hostile nesting costs nothing.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::weights {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes within the data section, as the file says: unchecked
};

// Entries in file order. Refuses unknown structure, duplicate names and keys, more than 8 dimensions, numbers that are
// not unsigned 64-bit integers. Messages do not name the file.
absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(std::string_view json);

}  // namespace baton::weights
