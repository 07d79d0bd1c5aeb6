#pragma once

// Copies whole KV blocks: within the pool (copy-on-write), pool to staging (gather), staging to pool (scatter), and
// pool to pinned host memory and back (swap), which the device reads and writes in place.

#include <cstdint>

#include "common/base/ids.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

// Block from_ids[i] of `from` becomes block to_ids[i] of `to`, for all i below `count`. Null ids stand for 0, 1, 2,
// ...: blocks that lie one behind the other. No block is both read and written. At most 65,535 blocks. block_bytes and
// both addresses are multiples of 16. All memory is the device's or pinned.
Error CopyBlocks(const void* from, const BlockId* from_ids, void* to, const BlockId* to_ids, int64_t count,
                 int64_t block_bytes, Stream stream);

}  // namespace baton::cuda
