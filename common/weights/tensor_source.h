#pragma once

// A tensor to be written: its bytes are made while they are written, so checkpoints of any size need little memory.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/dtype.h"

namespace baton::weights {

struct TensorSource {
  std::string name;
  DType dtype = DType::kBF16;
  std::vector<uint64_t> shape;  // outermost first: [rows, cols], or [n], which is one row
  // Writes the rows from `first` on that `out` has room for (whole rows, row_bytes() each). Gives the same bytes
  // however the rows are asked for.
  std::function<void(uint64_t first, std::span<std::byte> out)> fill;

  uint64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  uint64_t rows() const;
  uint64_t row_bytes() const { return BytesOf(dtype, cols()); }
  uint64_t bytes() const { return rows() * row_bytes(); }
};

// Bytes written so far and in total; from the writing thread.
using WriteProgress = std::function<void(uint64_t done, uint64_t total)>;

// Gives all bytes of `tensor` in order to `consume`, a few MiB at a time; ends with the first error.
absl::Status ForEachPiece(const TensorSource& tensor,
                          const std::function<absl::Status(std::span<const std::byte>)>& consume);

}  // namespace baton::weights
