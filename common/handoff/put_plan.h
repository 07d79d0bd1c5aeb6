#pragma once

// Which bytes go where: prompt blocks of this worker's pool into the leased blocks of the target's.

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/handoff/lease_offer.h"
#include "common/kv/pool_memory.h"
#include "common/transport/kv_transport.h"

namespace baton {

// Runs for prompt blocks [first, last), first >= offer.first_block, with keys in `order`; `blocks` are this worker's
// ids of the whole prompt. Blocks that are neighbours on both sides share a run. Runs point into memory of this process
// where it holds what the target wants; else they name places in the session's source. OUT_OF_RANGE with the numbers
// when a block is missing on either side or lies outside `memory`.
absl::StatusOr<std::vector<PutRun>> PlanPuts(const PoolMemory& memory, KeyOrder order, const LeaseOffer& offer,
                                             std::span<const BlockId> blocks, uint32_t first, uint32_t last);

}  // namespace baton
