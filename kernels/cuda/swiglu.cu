#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"
#include "kernels/cuda/swiglu.h"

namespace baton::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 8;  // elements a thread

template <typename T>
__global__ void SwiGluKernel(const T* gate_up, int64_t width, T* y) {
  const int64_t row = blockIdx.y;
  const int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kEach;
  if (i >= width) return;
  float gate[kEach], up[kEach];
  LoadFloats(gate_up + row * 2 * width + i, gate);
  LoadFloats(gate_up + row * 2 * width + width + i, up);
  BATON_UNROLL
  for (int j = 0; j < kEach; ++j) gate[j] = gate[j] / (1.0f + expf(-gate[j])) * up[j];
  StoreFloats(gate, y + row * width + i);
}

template <typename T>
Error Run(const void* gate_up, int64_t rows, int64_t width, void* y, Stream stream) {
  const dim3 grid(CeilDiv(width, kThreads * kEach), static_cast<unsigned>(rows));
  return Launch(SwiGluKernel<T>, {grid, dim3(kThreads), 0, stream}, static_cast<const T*>(gate_up), width,
                static_cast<T*>(y));
}

}  // namespace

Error SwiGlu(DType dtype, const void* gate_up, int64_t rows, int64_t width, void* y, Stream stream) {
  if (width % kEach != 0) return Error::kInvalidValue;
  BATON_FOR_NUMBER(dtype, T, Run<T>(gate_up, rows, width, y, stream))
}

}  // namespace baton::cuda
