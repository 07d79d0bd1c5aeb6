#include "common/engine/pool_size.h"

#include "common/base/status.h"

namespace baton {

absl::StatusOr<uint32_t> PoolBlocks(double bytes, const KvLayout& layout) {
  const double blocks = bytes / static_cast<double>(layout.BytesPerBlock());
  if (blocks < kMinPoolBlocks || blocks > UINT32_MAX) {
    return InvalidArgument("a KV pool of %.3f GiB holds %.0f blocks of %d bytes; between %d and %d are possible",
                           bytes / kGiB, blocks, layout.BytesPerBlock(), kMinPoolBlocks, UINT32_MAX);
  }
  return static_cast<uint32_t>(blocks);
}

absl::StatusOr<uint32_t> SwapBlocks(double swap_gib, const KvLayout& layout) {
  const double blocks = swap_gib * kGiB / static_cast<double>(layout.BytesPerBlock());
  if (blocks > UINT32_MAX || (swap_gib > 0 && blocks < 1)) {
    return InvalidArgument("--swap_gib %g holds %.0f blocks of %d bytes; between 1 and %d are possible", swap_gib,
                           blocks, layout.BytesPerBlock(), UINT32_MAX);
  }
  return static_cast<uint32_t>(blocks);
}

}  // namespace baton
