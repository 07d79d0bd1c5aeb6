#pragma once

// Which bytes go where: prompt blocks of this worker's pool into the leased blocks of the target's.

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/handoff/lease_offer.h"
#include "common/kv/layout.h"
#include "common/transport/kv_transport.h"

namespace baton {

// Runs for prompt blocks [first, last), first >= offer.first_block; `blocks` are this worker's ids of the whole prompt.
// Blocks that are neighbours on both sides share a run. OUT_OF_RANGE with the numbers when a block is missing on either
// side or lies outside `memory`.
absl::StatusOr<std::vector<PutRun>> PlanPuts(const KvLayout& layout, std::span<const std::byte> memory,
                                             const LeaseOffer& offer, std::span<const BlockId> blocks, uint32_t first,
                                             uint32_t last);

}  // namespace baton
