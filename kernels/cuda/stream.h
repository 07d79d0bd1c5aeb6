#pragma once

// What every CUDA kernel's header needs and no CUDA header: a stream and an error.

struct CUstream_st;

namespace baton::cuda {

// A cudaStream_t. Every kernel here is enqueued and returns at once; its pointers are the device's.
using Stream = CUstream_st*;

// A cudaError_t. kInvalidValue: shapes that the kernel does not take; its header says which it takes.
enum class [[nodiscard]] Error : int{kNone = 0, kInvalidValue = 1};

}  // namespace baton::cuda
