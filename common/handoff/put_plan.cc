#include "common/handoff/put_plan.h"

#include <utility>

#include "common/base/status.h"
#include "common/transport/put_runs.h"

namespace baton {

absl::StatusOr<std::vector<PutRun>> PlanPuts(const PoolMemory& memory, KeyOrder order, const LeaseOffer& offer,
                                             std::span<const BlockId> blocks, uint32_t first, uint32_t last) {
  if (last > blocks.size()) {
    return OutOfRange("prompt blocks up to %d are final, the block table has %d", last, blocks.size());
  }
  if (first < offer.first_block || last - offer.first_block > offer.blocks.size()) {
    return OutOfRange("prompt blocks %d to %d do not lie in the lease of %d blocks from block %d", first, last,
                      offer.blocks.size(), offer.first_block);
  }
  const uint64_t block_bytes = memory.layout().BytesPerBlock();
  const std::byte* const host = order == memory.layout().key_order ? memory.host().data() : nullptr;
  std::vector<PutRun> runs;
  for (uint32_t i = first; i < last; ++i) {
    if (blocks[i] >= memory.blocks()) {
      return OutOfRange("prompt block %d is block %d of a pool of %d", i, blocks[i], memory.blocks());
    }
    PutRun run{.target_offset = offer.blocks[i - offer.first_block] * block_bytes,
               .bytes = block_bytes,
               .source_offset = blocks[i] * block_bytes};
    if (host != nullptr) run.source = host + std::exchange(run.source_offset, 0);
    if (!runs.empty() && Continues(runs.back(), run)) {
      runs.back().bytes += block_bytes;
    } else {
      runs.push_back(run);
    }
  }
  return runs;
}

}  // namespace baton
