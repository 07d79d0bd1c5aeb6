#pragma once

// Paged causal attention with grouped queries.
//
// For every query the positions it sees are cut into ranges of kAttentionRange that start at position 0. A range gives
// scores s = (q . k) * scale (head_dim ascending), their maximum m, weights p = exp(s - m), their sum (16 lanes added
// by halves) and sum p v (positions ascending). Ranges are merged in order (Dao 2022; Milakov and Gimelshein 2018).
// Keys and values come from the pool only, rounded to its format, so a chunked prompt and a decode step see the same
// numbers.

#include <cstdint>
#include <span>

#include "common/base/dtype.h"
#include "common/base/ids.h"
#include "common/base/thread_pool.h"
#include "kernels/aligned_buffer.h"

namespace baton::cpu {

inline constexpr int64_t kAttentionRange = 64;
inline constexpr int64_t kMaxHeadDim = 256;
inline constexpr int64_t kMaxHeadGroup = 96;  // query heads of one kv head

// One sequence's queries in a step. Query i is row `first_row + i` of the batch and sits at position `position + i`.
struct AttentionSequence {
  int64_t first_row = 0;
  int64_t queries = 0;
  int64_t position = 0;
  std::span<const BlockId> blocks;  // covers positions [0, position + queries)
};

struct AttentionShape {
  DType kv_dtype = DType::kF32;  // f32, f16 or bf16
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads, at least heads / kMaxHeadGroup
  int64_t head_dim = 0;  // even, at most kMaxHeadDim
  int64_t block_size = 0;
  int64_t block_stride = 0;  // elements from a block to the next
  float scale = 1.0f;
  int64_t window = 0;  // 0: all; W: position p sees (p - W, p]
};

class AttentionWorkspace {
 public:
  explicit AttentionWorkspace(int threads);
  float* scratch(int worker) const { return scratch_.floats() + worker * kFloats; }
  static const int64_t kFloats;

 private:
  AlignedBuffer scratch_;
};

// keys, values: the layer's first key and value in block 0, [kv_heads, block_size, head_dim] there and block_stride
// elements later in every next block. queries, out: [rows, heads * head_dim], row strides q_stride and out_stride.
// Allocates nothing.
void Attention(const AttentionShape& shape, std::span<const AttentionSequence> sequences, const void* keys,
               const void* values, const float* queries, int64_t q_stride, float* out, int64_t out_stride,
               const AttentionWorkspace& workspace, ThreadPool& pool);

}  // namespace baton::cpu
