#pragma once

// Memory for weights and scratch: aligned to cache lines, large pieces to huge pages, which the kernel is asked for.

#include <cstddef>
#include <cstdint>

namespace baton {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Throws std::bad_alloc. The content is undefined.
  explicit AlignedBuffer(uint64_t bytes);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

// `count` floats, all zero.
AlignedBuffer ZeroedFloats(uint64_t count);

}  // namespace baton
