#include "common/weights/tensor_source.h"

#include <algorithm>

#include "common/base/status.h"

namespace baton::weights {
namespace {

constexpr uint64_t kPieceBytes = 4 << 20;

}  // namespace

uint64_t TensorSource::rows() const {
  uint64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

absl::Status ForEachPiece(const TensorSource& tensor,
                          const std::function<absl::Status(std::span<const std::byte>)>& consume) {
  const uint64_t rows = tensor.rows(), row_bytes = tensor.row_bytes();
  if (row_bytes == 0) return absl::OkStatus();
  const uint64_t rows_each = std::clamp<uint64_t>(kPieceBytes / row_bytes, 1, std::max<uint64_t>(rows, 1));
  std::vector<std::byte> piece(rows_each * row_bytes);
  for (uint64_t row = 0; row < rows; row += rows_each) {
    const std::span<std::byte> part(piece.data(), std::min(rows_each, rows - row) * row_bytes);
    tensor.fill(row, part);
    BATON_RETURN_IF_ERROR(consume(part));
  }
  return absl::OkStatus();
}

}  // namespace baton::weights
