#include "common/weights/file_cursor.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "common/base/status.h"

namespace baton::weights {

absl::Status FileCursor::Need(uint64_t size) const {
  if (size <= remaining()) return absl::OkStatus();
  return DataLoss("is %d bytes long; %d more are needed at byte %d, %d remain", file_->size(), size, position_,
                  remaining());
}

absl::Status FileCursor::Copy(void* out, uint64_t size) {
  BATON_RETURN_IF_ERROR(Need(size));
  if (size > buffer_.size()) {
    BATON_RETURN_IF_ERROR(file_->Read(position_, {static_cast<std::byte*>(out), static_cast<size_t>(size)}));
    position_ += size;
    return absl::OkStatus();
  }
  if (position_ < buffer_begin_ || position_ + size > buffer_end_) {
    const uint64_t count = std::min<uint64_t>(buffer_.size(), remaining());
    BATON_RETURN_IF_ERROR(file_->Read(position_, std::as_writable_bytes(std::span(buffer_.data(), count))));
    buffer_begin_ = position_;
    buffer_end_ = position_ + count;
  }
  std::memcpy(out, buffer_.data() + (position_ - buffer_begin_), size);
  position_ += size;
  return absl::OkStatus();
}

absl::Status FileCursor::Skip(uint64_t size) {
  BATON_RETURN_IF_ERROR(Need(size));
  position_ += size;
  return absl::OkStatus();
}

absl::StatusOr<std::string> FileCursor::GetString() {
  BATON_ASSIGN_OR_RETURN(const uint64_t size, Get<uint64_t>());
  BATON_RETURN_IF_ERROR(Need(size));
  std::string text(size, '\0');
  BATON_RETURN_IF_ERROR(Copy(text.data(), size));
  return text;
}

}  // namespace baton::weights
