#pragma once

// Memory of the device, and host memory that it can reach. Both are allocated at start, never in a step: allocation
// waits for the device.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/statusor.h"

namespace baton::device {

enum class MemoryKind : uint8_t {
  kDevice,
  kPinned,  // of the host, at a fixed place: copies from and to it overlap with everything else
};

// Owns one allocation; aligned to 256 bytes, its content is undefined.
class Memory {
 public:
  // RESOURCE_EXHAUSTED with both numbers when it is not there. 0 bytes are null.
  static absl::StatusOr<Memory> Allocate(MemoryKind kind, uint64_t bytes);

  Memory() = default;
  ~Memory();
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  std::span<T> span() const {
    return {as<T>(), size_ / sizeof(T)};
  }

 private:
  MemoryKind kind_ = MemoryKind::kDevice;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace baton::device
