#pragma once

// Moves bytes between a device's share of the KV pool and a buffer, and zeroes slots of it. The pool is
// [block][layer][k|v][head][slot][head_dim] over all KV heads; a share has some neighbouring heads of every block. What
// a range of the whole pool holds of other shares' heads is left alone, so that shares fill one buffer together.

#include <cstdint>

#include "common/base/ids.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

struct PoolShare {
  void* memory = nullptr;
  int32_t heads = 0;  // of the whole pool
  int32_t first_head = 0;
  int32_t share_heads = 0;
  int32_t layers = 0;
  int32_t block_size = 0;
  int32_t head_dim = 0;
  int32_t element_bytes = 0;
};

// Bytes [offset, offset + bytes) of the whole pool, and `at` of the buffer.
struct PoolRange {
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t at = 0;
};

// Ranges of one launch.
inline constexpr int kMaxPoolRanges = 64;

// Buffers are the device's, pinned, or a peer's that the device reaches. A head's piece is a multiple of 16 bytes. With
// `keys_by_element` the buffer has keys as [head_dim][slot]. At most kMaxPoolRanges.
Error GatherPoolBytes(const PoolShare& share, const PoolRange* ranges, int count, bool keys_by_element, void* buffer,
                      Stream stream);
Error ScatterPoolBytes(const PoolShare& share, const PoolRange* ranges, int count, const void* buffer, Stream stream);

// Zeroes slots [used, block_size) of each of `count` blocks, at most kMaxPoolRanges. A slot of a head is a multiple of
// 4 bytes.
Error ZeroPoolSlots(const PoolShare& share, const BlockId* ids, int count, int32_t used, Stream stream);

}  // namespace baton::cuda
