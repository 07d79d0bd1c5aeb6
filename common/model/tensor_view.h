#pragma once

// One weight of a model as it lies in its file or in memory, and the way to copy from it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/base/dtype.h"
#include "common/weights/mapped_file.h"

namespace baton::model {

struct TensorView {
  std::string name;  // as in the file
  DType dtype = DType::kF32;
  uint64_t rows = 0;  // output features; 1 for norms and biases
  uint64_t cols = 0;  // input features
  // [rows, cols] row-major, rows * row_bytes() long, in stored row order. Valid while the Model lives. Mapped when
  // `file` is set: copy through ReadRows, which survives a file that is cut meanwhile.
  std::span<const std::byte> data;
  std::shared_ptr<const weights::MappedFile> file;
  uint64_t file_offset = 0;
  // GGUF files of the llama architecture store the rows of q and k head by head with both halves of a head
  // interleaved. Set to the number of heads then; ReadRows and ReadRowBytes give rows in rotate-half order.
  uint32_t interleaved_heads = 0;

  uint64_t row_bytes() const { return BytesOf(dtype, cols); }
  uint64_t parameters() const { return rows * cols; }
};

// Copies rows [first, first + count) as f32 into `out` [count, cols]. DATA_LOSS if the file has become shorter. Any
// thread.
absl::Status ReadRows(const TensorView& tensor, uint64_t first, uint64_t count, float* out);

// The same rows in the tensor's own format: `out` has count * row_bytes() bytes.
absl::Status ReadRowBytes(const TensorView& tensor, uint64_t first, uint64_t count, std::byte* out);

}  // namespace baton::model
