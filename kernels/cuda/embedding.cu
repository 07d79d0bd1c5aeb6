#include "kernels/cuda/embedding.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"

namespace baton::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 4;  // elements a thread loads and stores at once

// A block is one row.
template <typename T>
__global__ void EmbeddingKernel(const T* __restrict__ table, const TokenId* __restrict__ tokens, int64_t width,
                                float* __restrict__ hidden) {
  const T* from = table + tokens[blockIdx.x] * width;
  float* to = hidden + blockIdx.x * width;
  for (int64_t i = int64_t{threadIdx.x} * kEach; i < width; i += kThreads * kEach) {
    float values[kEach];
    LoadFloats(from + i, values);
    StoreFloats(values, to + i);
  }
}

template <typename T>
Error Run(const void* table, const TokenId* tokens, int64_t rows, int64_t width, float* hidden, Stream stream) {
  return Launch(EmbeddingKernel<T>, {dim3(static_cast<unsigned>(rows)), dim3(kThreads), 0, stream},
                static_cast<const T*>(table), tokens, width, hidden);
}

}  // namespace

Error Embedding(DType dtype, const void* table, const TokenId* tokens, int64_t rows, int64_t width, float* hidden,
                Stream stream) {
  if (width % kEach != 0) return Error::kInvalidValue;
  BATON_FOR_NUMBER(dtype, T, Run<T>(table, tokens, rows, width, hidden, stream))
}

}  // namespace baton::cuda
