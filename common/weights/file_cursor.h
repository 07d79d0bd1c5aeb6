#pragma once

// Sequential reading of a binary header: buffered, never past the end, each length compared with what remains first.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/weights/mapped_file.h"

namespace baton::weights {

class FileCursor {
 public:
  explicit FileCursor(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return file_->size() - position_; }

  // DATA_LOSS when fewer than `size` bytes remain.
  absl::Status Copy(void* out, uint64_t size);
  absl::Status Skip(uint64_t size);

  template <typename T>
  requires std::is_arithmetic_v<T> absl::StatusOr<T> Get() {
    T value;
    if (absl::Status status = Copy(&value, sizeof(T)); !status.ok()) return status;
    return value;
  }

  // A 64-bit length and so many bytes.
  absl::StatusOr<std::string> GetString();

 private:
  absl::Status Need(uint64_t size) const;

  std::shared_ptr<const MappedFile> file_;
  uint64_t position_ = 0;
  uint64_t buffer_begin_ = 0, buffer_end_ = 0;  // positions in the file
  std::vector<char> buffer_ = std::vector<char>(64 << 10);
};

}  // namespace baton::weights
