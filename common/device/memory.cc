#include "common/device/memory.h"

#include <cuda_runtime.h>

#include "common/base/status.h"
#include "common/device/device.h"

namespace baton::device {

absl::StatusOr<Memory> Memory::Allocate(MemoryKind kind, uint64_t bytes) {
  Memory memory;
  memory.kind_ = kind;
  if (bytes == 0) return memory;
  void* data = nullptr;
  const cudaError_t error =
      kind == MemoryKind::kDevice ? cudaMalloc(&data, bytes) : cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not an error of what comes next
    size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    if (kind == MemoryKind::kPinned) return ResourceExhausted("no %d bytes of pinned host memory", bytes);
    return ResourceExhausted("no %d bytes of device memory; %d of %d are free", bytes, free_bytes, total_bytes);
  }
  BATON_RETURN_IF_ERROR(ToStatus(error, "allocating memory"));
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}

Memory::~Memory() {
  if (data_ != nullptr) kind_ == MemoryKind::kDevice ? cudaFree(data_) : cudaFreeHost(data_);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(kind_, other.kind_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace baton::device
