#pragma once

// Checksums of KV blocks as they cross a transport: common/base/hash.h's Checksum, bit for bit.

#include <cstdint>

#include "common/base/ids.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

// checksums[i] = Checksum of the block_bytes at pool + ids[i] * block_bytes. block_bytes is a multiple of 16.
Error ChecksumBlocks(const void* pool, const BlockId* ids, int64_t count, int64_t block_bytes, uint64_t* checksums,
                     Stream stream);

}  // namespace baton::cuda
