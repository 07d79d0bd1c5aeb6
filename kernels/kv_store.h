#pragma once

// Rounds keys or values of one token to the pool's format: to nearest even; int8 to whole multiples of the head's
// scale, which is its largest magnitude / 127 (a head that is not finite gets a NaN scale: nothing is computed from
// it).

#include <cstdint>

#include "common/base/dtype.h"

namespace baton::cpu {

// A kv head's piece of a block (see attention.h) and the token's slot in it.
struct KvSlot {
  DType dtype = DType::kF32;  // f32, f16, bf16 or int8
  int64_t head_dim = 0;       // at most kMaxHeadDim
  int64_t block_size = 0;
  int64_t head_stride = 0;  // bytes from a kv head's piece to the next one's
  int64_t slot = 0;
};

// in: [heads, head_dim]. piece: the block's first head's piece of keys (or values).
void StoreKeys(const KvSlot& slot, const float* in, int64_t heads, void* piece);
void StoreValues(const KvSlot& slot, const float* in, int64_t heads, void* piece);

}  // namespace baton::cpu
