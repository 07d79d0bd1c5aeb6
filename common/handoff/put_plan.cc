#include "common/handoff/put_plan.h"

#include "common/base/status.h"

namespace baton {

absl::StatusOr<std::vector<PutRun>> PlanPuts(const KvLayout& layout, std::span<const std::byte> memory,
                                             const LeaseOffer& offer, std::span<const BlockId> blocks, uint32_t first,
                                             uint32_t last) {
  if (last > blocks.size()) {
    return OutOfRange("prompt blocks up to %d are final, the block table has %d", last, blocks.size());
  }
  if (first < offer.first_block || last - offer.first_block > offer.blocks.size()) {
    return OutOfRange("prompt blocks %d to %d do not lie in the lease of %d blocks from block %d", first, last,
                      offer.blocks.size(), offer.first_block);
  }
  const uint64_t block_bytes = layout.BytesPerBlock();
  const uint64_t pool_blocks = memory.size() / block_bytes;
  std::vector<PutRun> runs;
  for (uint32_t i = first; i < last; ++i) {
    if (blocks[i] >= pool_blocks) {
      return OutOfRange("prompt block %d is block %d of a pool of %d", i, blocks[i], pool_blocks);
    }
    const std::byte* source = memory.data() + blocks[i] * block_bytes;
    const uint64_t target_offset = offer.blocks[i - offer.first_block] * block_bytes;
    if (!runs.empty() && runs.back().source + runs.back().bytes == source &&
        runs.back().target_offset + runs.back().bytes == target_offset) {
      runs.back().bytes += block_bytes;
    } else {
      runs.push_back(PutRun{source, target_offset, block_bytes});
    }
  }
  return runs;
}

}  // namespace baton
