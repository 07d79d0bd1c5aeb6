#include "common/base/murmur3.h"
#include "kernels/cuda/checksum.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"

namespace baton::cuda {
namespace {

using murmur3::Words;

// A warp is one KV block. MurmurHash3 is one chain over its bytes; what can be done beside the chain, loading and
// mixing each word, is done for 32 words at once, a lane each. Every lane then follows the chain, so nothing has to be
// sent back.
__global__ void ChecksumKernel(const Words* pool, const BlockId* ids, int64_t words, uint64_t* checksums) {
  SharedArena shared;
  Words* mixed = shared.Take<Words>(2 * kWarp);
  const Words* block = pool + int64_t{ids[blockIdx.x]} * words;
  Words state;
  int stage = 0;
  for (int64_t first = 0; first < words; first += kWarp, stage ^= kWarp) {
    const int64_t mine = first + Lane();
    if (mine < words) {
      const auto k = reinterpret_cast<const Pack<uint64_t, 2>*>(block)[mine];
      mixed[stage + Lane()] = murmur3::Scramble({k.values[0], k.values[1]});
    }
    WarpBarrier();  // the next round writes the other stage, and comes back to this one after another barrier
    const int count = words - first < kWarp ? static_cast<int>(words - first) : kWarp;
    for (int i = 0; i < count; ++i) murmur3::Add(state, mixed[stage + i]);
  }
  state = murmur3::Finish(state, static_cast<uint64_t>(words) * sizeof(Words));
  if (Lane() == 0) checksums[blockIdx.x] = state.second;
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
