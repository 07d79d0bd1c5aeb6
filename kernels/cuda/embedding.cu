#include "kernels/cuda/embedding.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"

namespace baton::cuda {
namespace {

constexpr int kThreads = 256;

// A block is one row.
template <typename T>
__global__ void EmbeddingKernel(const T* table, const TokenId* tokens, int64_t width, float* hidden) {
  const T* from = table + tokens[blockIdx.x] * width;
  float* to = hidden + blockIdx.x * width;
  for (int64_t i = threadIdx.x; i < width; i += kThreads) to[i] = ToFloat(from[i]);
}

template <typename T>
Error Run(const void* table, const TokenId* tokens, int64_t rows, int64_t width, float* hidden, Stream stream) {
  return Launch(EmbeddingKernel<T>, {dim3(static_cast<unsigned>(rows)), dim3(kThreads), 0, stream},
                static_cast<const T*>(table), tokens, width, hidden);
}

}  // namespace

Error Embedding(DType dtype, const void* table, const TokenId* tokens, int64_t rows, int64_t width, float* hidden,
                Stream stream) {
  BATON_FOR_NUMBER(dtype, T, Run<T>(table, tokens, rows, width, hidden, stream))
}

}  // namespace baton::cuda
