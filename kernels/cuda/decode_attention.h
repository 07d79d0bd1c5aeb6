#pragma once

// Paged attention of single rows: decode steps, and every row where the order of additions must not depend on how a
// prompt was cut, or where prefill_attention.h does not take the shape.
//
// Split-KV ("Flash-Decoding", Dao et al. 2023): the positions a row sees are cut into splits of fixed length that start
// at position 0, a block each, so that a row's bits depend on its own length alone. A block reads its keys and values
// once for up to 8 query heads of a kv head, with online softmax (Milakov and Gimelshein 2018); a second kernel merges
// the splits in order.

#include <cstdint>

#include "kernels/cuda/paged_kv.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

inline constexpr int64_t kAttentionSplit = 512;  // positions

struct DecodeAttentionShape {
  int32_t heads = 0;       // a multiple of kv_heads
  int32_t window = 0;      // 0: all; W: position p sees (p - W, p]
  float scale = 1.0f;      // of the scores
  int64_t max_length = 0;  // no position is at or beyond it; grid and workspace follow it
  int64_t q_stride = 0;    // elements from a row's queries to the next's; a multiple of 8
};

// Bytes of workspace for `rows` rows.
uint64_t DecodeAttentionWorkspace(const DecodeAttentionShape& shape, int32_t head_dim, int64_t rows);

// queries: [rows, heads * head_dim], rows q_stride apart; out: [rows, heads * head_dim], dense; both of kv.dtype. A
// padding row's output is not written. workspace: DecodeAttentionWorkspace bytes, aligned to 16.
Error DecodeAttention(const DecodeAttentionShape& shape, const PagedKv& kv, const PagedRows& rows, int64_t row_count,
                      const void* queries, void* out, void* workspace, Stream stream);

}  // namespace baton::cuda
