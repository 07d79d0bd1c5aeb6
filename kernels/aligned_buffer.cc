#include "kernels/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace baton {
namespace {

constexpr uint64_t kCacheLine = 64;
constexpr uint64_t kHugePage = uint64_t{2} << 20;

}  // namespace

AlignedBuffer::AlignedBuffer(uint64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const uint64_t alignment = bytes >= 2 * kHugePage ? kHugePage : kCacheLine;
  if (bytes > UINT64_MAX - alignment) throw std::bad_alloc();
  const uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (data_ == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) madvise(data_, rounded, MADV_HUGEPAGE);  // a wish: small pages work as well
}

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AlignedBuffer ZeroedFloats(uint64_t count) {
  AlignedBuffer buffer(count * sizeof(float));
  if (count != 0) std::memset(buffer.data(), 0, buffer.size());
  return buffer;
}

}  // namespace baton
