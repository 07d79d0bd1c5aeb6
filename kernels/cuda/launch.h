#pragma once

// The one way kernels are launched, on a device by CUDA's runtime and in tests by the stand-in of the same name.
// Included by .cu files only.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/stream.h"

namespace baton::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;               // whole warps
  size_t shared_bytes = 0;  // what the kernel takes from its SharedArena
  Stream stream = nullptr;
};

// Enqueues `kernel` with `arguments`, converted to its parameters. An empty grid is no error and does nothing.
template <typename... Parameters, typename... Arguments>
Error Launch(void (*kernel)(Parameters...), const LaunchShape& shape, const Arguments&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return Error::kNone;
  constexpr size_t kAlwaysAllowed = 48 << 10;
  const void* function = reinterpret_cast<const void*>(kernel);
  if (shape.shared_bytes > kAlwaysAllowed) {
    const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(shape.shared_bytes));
    if (error != cudaSuccess) return static_cast<Error>(error);
  }
#if defined(__CUDACC__)
  const auto launch = [&](Parameters... parameters) {
    void* pointers[] = {&parameters...};
    return cudaLaunchKernel(function, shape.grid, shape.block, pointers, shape.shared_bytes, shape.stream);
  };
  return static_cast<Error>(launch(arguments...));
#else
  return static_cast<Error>(stand_in::LaunchKernel(
      function, shape.grid, shape.block, shape.shared_bytes, shape.stream, [=] { kernel(arguments...); },
      stand_in::WordsOf(arguments...)));
#endif
}

constexpr unsigned CeilDiv(int64_t a, int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace baton::cuda
