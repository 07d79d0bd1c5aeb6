#pragma once

// What happens to queries, keys and values between their projection and attention, in one pass: bias, norm of each
// head, rotary embedding (rotate-half form), and the write of keys and values to the pool.

#include <cstdint>

#include "kernels/cuda/paged_kv.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

struct RopeKvWeights {
  const float* bias = nullptr;    // [(heads + 2 kv_heads) * head_dim] or null
  const float* q_norm = nullptr;  // [head_dim] or null: no norm; both or none
  const float* k_norm = nullptr;
  float eps = 0;
  const float* cosine = nullptr;  // [positions, head_dim / 2], of every position that occurs
  const float* sine = nullptr;
};

// qkv: [rows, (heads + 2 kv_heads) * head_dim] of kv.dtype, queries, then keys, then values. Queries are changed in
// place, keys and values go to the pool rounded to its format.
Error RopeAndStoreKv(const RopeKvWeights& weights, const PagedKv& kv, const PagedRows& rows, int64_t row_count,
                     int32_t heads, void* qkv, Stream stream);

}  // namespace baton::cuda
