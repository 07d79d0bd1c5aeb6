#pragma once

// Blocks with their keys in another order than they lie in.

#include <cstddef>

#include "common/kv/layout.h"

namespace baton {

// Copies a block of `layout` to `out` with keys in `order`; values and scales stay as they are. The two do not overlap.
void CopyBlockInOrder(const KvLayout& layout, KeyOrder order, const std::byte* block, std::byte* out);

}  // namespace baton
