#include "kernels/cuda/checksum.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"

namespace baton::cuda {
namespace {

using Words = Pack<uint64_t, 2>;

__device__ __forceinline__ uint64_t RotateLeft(uint64_t value, int bits) {
  return value << bits | value >> (64 - bits);
}

__device__ __forceinline__ uint64_t Mix(uint64_t k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccdULL;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53ULL;
  k ^= k >> 33;
  return k;
}

// A warp is one KV block. MurmurHash3 is one chain over its bytes; what can be done beside the chain, loading and
// mixing each word, is done for 32 words at once, a lane each. Every lane then follows the chain, so nothing has to be
// sent back.
__global__ void ChecksumKernel(const Words* pool, const BlockId* ids, int64_t words, uint64_t* checksums) {
  constexpr uint64_t kC1 = 0x87c37b91114253d5ULL, kC2 = 0x4cf5ad432745937fULL;
  SharedArena shared;
  Words* mixed = shared.Take<Words>(2 * kWarp);
  const Words* block = pool + int64_t{ids[blockIdx.x]} * words;
  uint64_t h1 = 0, h2 = 0;
  int stage = 0;
  for (int64_t first = 0; first < words; first += kWarp, stage ^= kWarp) {
    const int64_t mine = first + Lane();
    if (mine < words) {
      const Words k = block[mine];
      mixed[stage + Lane()] = {{RotateLeft(k.values[0] * kC1, 31) * kC2, RotateLeft(k.values[1] * kC2, 33) * kC1}};
    }
    WarpBarrier();  // the next round writes the other stage, and comes back to this one after another barrier
    const int count = words - first < kWarp ? static_cast<int>(words - first) : kWarp;
    for (int i = 0; i < count; ++i) {
      h1 ^= mixed[stage + i].values[0];
      h1 = (RotateLeft(h1, 27) + h2) * 5 + 0x52dce729;
      h2 ^= mixed[stage + i].values[1];
      h2 = (RotateLeft(h2, 31) + h1) * 5 + 0x38495ab5;
    }
  }
  const uint64_t bytes = static_cast<uint64_t>(words) * sizeof(Words);
  h1 ^= bytes;
  h2 ^= bytes;
  h1 += h2;
  h2 += h1;
  h1 = Mix(h1);
  h2 = Mix(h2);
  h1 += h2;
  h2 += h1;
  if (Lane() == 0) checksums[blockIdx.x] = h2;
}

}  // namespace

Error ChecksumBlocks(const void* pool, const BlockId* ids, int64_t count, int64_t block_bytes, uint64_t* checksums,
                     Stream stream) {
  if (block_bytes % static_cast<int64_t>(sizeof(Words)) != 0) return Error::kInvalidValue;
  return Launch(ChecksumKernel,
                {dim3(static_cast<unsigned>(count)), dim3(kWarp), SharedBytes<Words>(2 * kWarp), stream},
                static_cast<const Words*>(pool), ids, block_bytes / static_cast<int64_t>(sizeof(Words)), checksums);
}

}  // namespace baton::cuda
