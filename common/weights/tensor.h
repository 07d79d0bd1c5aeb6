#pragma once

// A named tensor of a checkpoint, and the collection of all of them; both file formats end up here.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/dtype.h"
#include "common/weights/mapped_file.h"

namespace baton::weights {

struct Tensor {
  std::string name;
  std::optional<DType> dtype;   // empty: a valid format that Baton does not compute with (I64, BOOL, ...)
  std::string dtype_name;       // as the file has it
  std::vector<uint64_t> shape;  // outermost dimension first in both file formats
  std::span<const std::byte> data;
  std::shared_ptr<const MappedFile> file;  // null for a tensor in memory
  uint64_t file_offset = 0;
};

using TensorMap = std::map<std::string, Tensor, std::less<>>;

// "[151936, 896]"
std::string ShapeText(const std::vector<uint64_t>& shape);

// A name from a file, fit for one line of a message: quoted, escaped, cut at 120 characters.
std::string Quoted(std::string_view name);

// Product of the dimensions; empty when it does not fit into 63 bits.
std::optional<uint64_t> ElementCount(const std::vector<uint64_t>& shape);

}  // namespace baton::weights
