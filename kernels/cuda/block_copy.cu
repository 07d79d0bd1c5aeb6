#include "kernels/cuda/block_copy.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"

namespace baton::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 4;  // words a thread has under way

using Word = Pack<uint32_t, 4>;

// A block of threads: a part of one KV block.
__global__ void CopyBlocksKernel(const Word* from, const BlockId* from_ids, Word* to, const BlockId* to_ids,
                                 int64_t words) {
  const int64_t index = blockIdx.y;
  const Word* source = from + (from_ids == nullptr ? index : from_ids[index]) * words;
  Word* target = to + (to_ids == nullptr ? index : to_ids[index]) * words;
  const int64_t first = int64_t{blockIdx.x} * kThreads * kEach + threadIdx.x;
  Word held[kEach];
  BATON_UNROLL
  for (int i = 0; i < kEach; ++i) {
    if (first + i * kThreads < words) held[i] = source[first + i * kThreads];
  }
  BATON_UNROLL
  for (int i = 0; i < kEach; ++i) {
    if (first + i * kThreads < words) target[first + i * kThreads] = held[i];
  }
}

}  // namespace

Error CopyBlocks(const void* from, const BlockId* from_ids, void* to, const BlockId* to_ids, int64_t count,
                 int64_t block_bytes, Stream stream) {
  constexpr int64_t kAtOnce = 65535;  // what a grid takes in y
  if (block_bytes % static_cast<int64_t>(sizeof(Word)) != 0 || count > kAtOnce) return Error::kInvalidValue;
  const int64_t words = block_bytes / static_cast<int64_t>(sizeof(Word));
  const dim3 grid(CeilDiv(words, kThreads * kEach), static_cast<unsigned>(count));
  return Launch(CopyBlocksKernel, {grid, dim3(kThreads), 0, stream}, static_cast<const Word*>(from), from_ids,
                static_cast<Word*>(to), to_ids, words);
}

}  // namespace baton::cuda
