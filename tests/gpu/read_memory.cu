#include "kernels/cuda/launch.h"
#include "kernels/cuda/number.h"
#include "kernels/cuda/primitives.h"
#include "tests/gpu/read_memory.h"

namespace baton {
namespace {

constexpr int kThreads = 512;
constexpr int kEach = 8;  // words a thread has under way

using Word = cuda::Pack<uint32_t, 4>;

__global__ void ReadKernel(const Word* words, int64_t count, uint32_t* sink) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  uint32_t sum = 0;
  int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kEach - 1) * stride < count; i += kEach * stride) {
    Word held[kEach];
    BATON_UNROLL
    for (int j = 0; j < kEach; ++j) held[j] = words[i + j * stride];
    BATON_UNROLL
    for (int j = 0; j < kEach; ++j) {
      sum += held[j].values[0] ^ held[j].values[1] ^ held[j].values[2] ^ held[j].values[3];
    }
  }
  for (; i < count; i += stride) sum += words[i].values[0];
  if (sum == 0x12345678) *sink = sum;  // so that nothing is left out
}

}  // namespace

cuda::Error ReadMemory(const void* memory, int64_t bytes, int multiprocessors, uint32_t* sink, cuda::Stream stream) {
  const dim3 grid(static_cast<unsigned>(4 * multiprocessors));
  return cuda::Launch(ReadKernel, {grid, dim3(kThreads), 0, stream}, static_cast<const Word*>(memory),
                      bytes / static_cast<int64_t>(sizeof(Word)), sink);
}

}  // namespace baton
