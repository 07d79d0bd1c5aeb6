#pragma once

// Rounds keys or values of one token to the pool's format (to nearest even).

#include <cstdint>

#include "common/base/dtype.h"

namespace baton::cpu {

// in: [heads, head_dim]. out: slot 0 of the block's first head; heads lie head_stride elements apart.
inline void StoreKv(DType dtype, const float* in, int64_t heads, int64_t head_dim, int64_t slot, int64_t head_stride,
                    void* out) {
  for (int64_t head = 0; head < heads; ++head) {
    const float* from = in + head * head_dim;
    const int64_t to = head * head_stride + slot * head_dim;
    for (int64_t d = 0; d < head_dim; ++d) {
      switch (dtype) {
        case DType::kF16:
          static_cast<uint16_t*>(out)[to + d] = F16FromF32(from[d]);
          break;
        case DType::kBF16:
          static_cast<uint16_t*>(out)[to + d] = BF16FromF32(from[d]);
          break;
        default:
          static_cast<float*>(out)[to + d] = from[d];
      }
    }
  }
}

}  // namespace baton::cpu
