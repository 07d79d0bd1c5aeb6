#include "common/model/tensor_view.h"

#include <cstring>
#include <vector>

#include "common/base/status.h"
#include "common/weights/dequantize.h"

namespace baton::model {
namespace {

// Where the converter put a row of a head: element j of half t went to 2 j + t.
uint64_t StoredRow(const TensorView& tensor, uint64_t row) {
  const uint64_t head_dim = tensor.rows / tensor.interleaved_heads, half = head_dim / 2;
  const uint64_t within = row % head_dim;
  return row - within + within % half * 2 + within / half;
}

absl::Status CopyStored(const TensorView& tensor, uint64_t first, uint64_t count, std::byte* out) {
  const uint64_t offset = first * tensor.row_bytes(), bytes = count * tensor.row_bytes();
  if (tensor.file) return tensor.file->Read(tensor.file_offset + offset, {out, static_cast<size_t>(bytes)});
  std::memcpy(out, tensor.data.data() + offset, bytes);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadRowBytes(const TensorView& tensor, uint64_t first, uint64_t count, std::byte* out) {
  BATON_CHECK(first <= tensor.rows && count <= tensor.rows - first);
  if (tensor.interleaved_heads == 0) return CopyStored(tensor, first, count, out);
  for (uint64_t i = 0; i < count; ++i) {
    BATON_RETURN_IF_ERROR(CopyStored(tensor, StoredRow(tensor, first + i), 1, out + i * tensor.row_bytes()));
  }
  return absl::OkStatus();
}

absl::Status ReadRows(const TensorView& tensor, uint64_t first, uint64_t count, float* out) {
  if (tensor.dtype == DType::kF32) return ReadRowBytes(tensor, first, count, reinterpret_cast<std::byte*>(out));
  std::vector<std::byte> bytes(count * tensor.row_bytes());
  BATON_RETURN_IF_ERROR(ReadRowBytes(tensor, first, count, bytes.data()));
  weights::Dequantize(tensor.dtype, bytes.data(), count * tensor.cols, out);
  return absl::OkStatus();
}

}  // namespace baton::model
