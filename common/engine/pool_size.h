#pragma once

// From sizes in GiB, as operators give them, to blocks.

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"

namespace baton {

inline constexpr double kGiB = 1024.0 * 1024 * 1024;
inline constexpr uint32_t kMinPoolBlocks = 4;

// INVALID_ARGUMENT with the numbers when `bytes` are too few to serve from, or more than can be numbered.
absl::StatusOr<uint32_t> PoolBlocks(double bytes, const KvLayout& layout);

// 0 for 0; INVALID_ARGUMENT with the numbers for less than a block.
absl::StatusOr<uint32_t> SwapBlocks(double swap_gib, const KvLayout& layout);

}  // namespace baton
