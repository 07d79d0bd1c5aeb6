#include "kernels/cuda/launch.h"
#include "kernels/cuda/pool_bytes.h"
#include "kernels/cuda/primitives.h"

namespace baton::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 4;  // words a thread moves

using Word = Pack<uint32_t, 4>;

struct Ranges {
  PoolRange at[kMaxPoolRanges];
};
struct Blocks {
  BlockId at[kMaxPoolRanges];
};

// A row of blocks of threads is a range. T divides every offset and length.
template <typename T, bool kGather, bool kReorder>
__global__ void MoveKernel(PoolShare share, Ranges ranges, T* buffer) {
  constexpr int64_t kBytes = sizeof(T);
  const PoolRange range = ranges.at[blockIdx.y];
  const int64_t head_words = int64_t{share.head_dim} * share.block_size * share.element_bytes / kBytes;
  T* const memory = static_cast<T*>(share.memory);
  for (int i = 0; i < kEach; ++i) {
    const int64_t word = (int64_t{blockIdx.x} * kEach + i) * kThreads + threadIdx.x;
    if (word * kBytes >= range.bytes) return;
    const int64_t in_pool = range.offset / kBytes + word;
    const int64_t piece = in_pool / head_words, outer = piece / share.heads;
    const int64_t head = piece % share.heads - share.first_head;
    if (head < 0 || head >= share.share_heads) continue;
    int64_t inside = in_pool % head_words;
    if (kReorder && outer % 2 == 0) {
      const int64_t element_words = share.element_bytes / kBytes;
      const int64_t number = inside / element_words;
      const int64_t element = number / share.block_size, slot = number % share.block_size;
      inside = (slot * share.head_dim + element) * element_words + inside % element_words;
    }
    T& mine = memory[(outer * share.share_heads + head) * head_words + inside];
    T& theirs = buffer[range.at / kBytes + word];
    kGather ? theirs = mine : mine = theirs;
  }
}

template <typename T, bool kGather, bool kReorder>
Error Move(const PoolShare& share, const Ranges& ranges, int count, int64_t longest, void* buffer, Stream stream) {
  const dim3 grid(CeilDiv(longest, kThreads * kEach * sizeof(T)), static_cast<unsigned>(count));
  return Launch(MoveKernel<T, kGather, kReorder>, {grid, dim3(kThreads), 0, stream}, share, ranges,
                static_cast<T*>(buffer));
}

template <bool kGather>
Error MoveAll(const PoolShare& share, const PoolRange* ranges, int count, bool reorder, void* buffer, Stream stream) {
  if (count > kMaxPoolRanges) return Error::kInvalidValue;
  Ranges held;
  int64_t longest = 0, any = 0;
  for (int i = 0; i < count; ++i) {
    held.at[i] = ranges[i];
    any |= ranges[i].offset | ranges[i].bytes | ranges[i].at;
    if (ranges[i].bytes > longest) longest = ranges[i].bytes;
  }
  if (count == 0 || longest == 0) return Error::kNone;
  if constexpr (kGather) {
    if (reorder) {
      any |= share.element_bytes;
      if (any % 4 == 0) return Move<uint32_t, true, true>(share, held, count, longest, buffer, stream);
      if (any % 2 == 0) return Move<uint16_t, true, true>(share, held, count, longest, buffer, stream);
      return Move<uint8_t, true, true>(share, held, count, longest, buffer, stream);
    }
  }
  if (any % static_cast<int64_t>(sizeof(Word)) == 0) {
    return Move<Word, kGather, false>(share, held, count, longest, buffer, stream);
  }
  return Move<uint8_t, kGather, false>(share, held, count, longest, buffer, stream);
}

// A block of threads: a head's piece.
__global__ void ZeroKernel(PoolShare share, Blocks blocks, int32_t used) {
  const int64_t pieces = int64_t{share.layers} * 2 * share.share_heads;
  const int64_t slot_words = int64_t{share.head_dim} * share.element_bytes / 4;
  const int64_t piece = int64_t{blocks.at[blockIdx.y]} * pieces + blockIdx.x;
  uint32_t* const words = static_cast<uint32_t*>(share.memory) + piece * share.block_size * slot_words;
  for (int64_t i = used * slot_words + threadIdx.x; i < share.block_size * slot_words; i += kThreads) words[i] = 0;
}

}  // namespace

Error GatherPoolBytes(const PoolShare& share, const PoolRange* ranges, int count, bool keys_by_element, void* buffer,
                      Stream stream) {
  return MoveAll<true>(share, ranges, count, keys_by_element, buffer, stream);
}

Error ScatterPoolBytes(const PoolShare& share, const PoolRange* ranges, int count, const void* buffer, Stream stream) {
  return MoveAll<false>(share, ranges, count, false, const_cast<void*>(buffer), stream);
}

Error ZeroPoolSlots(const PoolShare& share, const BlockId* ids, int count, int32_t used, Stream stream) {
  if (count > kMaxPoolRanges || share.head_dim * share.element_bytes % 4 != 0) return Error::kInvalidValue;
  Blocks held;
  for (int i = 0; i < count; ++i) held.at[i] = ids[i];
  const dim3 grid(static_cast<unsigned>(share.layers * 2 * share.share_heads), static_cast<unsigned>(count));
  return Launch(ZeroKernel, {grid, dim3(kThreads), 0, stream}, share, held, used);
}

}  // namespace baton::cuda
