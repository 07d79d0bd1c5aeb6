#pragma once

// What must hold before a sequence may run on KV that somebody else wrote (I2).

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "common/handoff/lease_table.h"
#include "common/kv/layout.h"
#include "common/transport/control_messages.h"

namespace baton {

// Compares the commit with the lease and with the bytes in `memory` (the whole pool). FAILED_PRECONDITION when counts
// or first tokens do not fit the lease, DATA_LOSS when a block's checksum differs; both with the numbers.
absl::Status VerifyCommit(const Lease& lease, const CommitMessage& commit, const KvLayout& layout,
                          std::span<const std::byte> memory);

// The block's bytes in the pool.
std::span<std::byte> BlockBytes(const KvLayout& layout, std::span<std::byte> memory, BlockId block);

// Zeroes slots [used, block_size) of every head and layer of `block`: what a writer left there never reaches attention.
void ZeroUnusedSlots(const KvLayout& layout, std::span<std::byte> memory, BlockId block, uint32_t used);

}  // namespace baton
