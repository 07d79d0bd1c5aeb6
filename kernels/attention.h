#pragma once

// Paged causal attention with grouped queries.
//
// For every query the positions it sees are cut into ranges of kAttentionRange that start at position 0. A range gives
// scores s = (q . k) * scale (head_dim ascending), their maximum m, weights p = exp(s - m), their sum (16 lanes added
// by halves) and sum p v (positions ascending). The ranges of a segment of kAttentionSegment positions are merged in
// order, then the segments (Dao 2022; Milakov and Gimelshein 2018): a segment does not depend on the one before, so
// any thread may take it, and the bits are the same whoever did.
// Keys and values come from the pool only, rounded to its format, so a chunked prompt and a decode step see the same
// numbers. int8: s = (q . k) * scale of the key * scale, and p v = (p * scale of the value) v with whole k and v.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/ids.h"
#include "common/base/thread_pool.h"
#include "kernels/aligned_buffer.h"

namespace baton::cpu {

inline constexpr int64_t kAttentionRange = 64;
inline constexpr int64_t kAttentionSegment = 256;
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
  DType kv_dtype = DType::kF32;  // f32, f16, bf16 or int8
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads, at least heads / kMaxHeadGroup
  int64_t head_dim = 0;  // even, at most kMaxHeadDim
  int64_t block_size = 0;
  int64_t head_stride = 0;   // bytes from a kv head's piece of a block to the next one's
  int64_t block_stride = 0;  // bytes from a block to the next
  float scale = 1.0f;
  int64_t window = 0;  // 0: all; W: position p sees (p - W, p]
};

// Memory that Attention works in, allocated once. Used by one call at a time.
class AttentionWorkspace {
 public:
  // For a pool of `threads` and calls with at most `max_sequences` sequences.
  AttentionWorkspace(int threads, int64_t max_sequences);
  // Memory of such a workspace.
  static uint64_t BytesFor(int threads, int64_t max_sequences);

 private:
  friend class AttentionCall;
  AlignedBuffer scratch_;                             // [threads] AttentionScratch
  AlignedBuffer partials_;                            // what segments leave for whoever merges them
  std::unique_ptr<std::atomic<int32_t>[]> finished_;  // per tile of queries and kv head: tasks that have ended
  struct Share {
    int64_t first_task;     // of the sequence
    int64_t splits;         // tasks per tile and kv head
    int64_t first_partial;  // floats into partials_
    int64_t first_counter;
  };
  std::vector<Share> shares_;  // one per sequence
};

// One attention, cut into tasks that may run in any order on any worker. Plans in the constructor; allocates nothing.
//
// keys, values: the layer's first key and value in block 0. A kv head's piece of a block holds keys as
// [head_dim][block_size] and values as [block_size][head_dim], with int8 followed by f32 scales [block_size].
// queries, out: [rows, heads * head_dim], row strides q_stride and out_stride.
class AttentionCall {
 public:
  // Everything the arguments point to outlives the call.
  AttentionCall(const AttentionShape& shape, std::span<const AttentionSequence> sequences, const void* keys,
                const void* values, const float* queries, int64_t q_stride, float* out, int64_t out_stride,
                AttentionWorkspace& workspace, int threads);

  int64_t tasks() const { return tasks_; }
  void Run(int64_t task, int worker) const;

 private:
  const AttentionShape shape_;
  const std::span<const AttentionSequence> sequences_;
  const std::byte* const keys_;
  const std::byte* const values_;
  const float* const queries_;
  const int64_t q_stride_;
  float* const out_;
  const int64_t out_stride_;
  AttentionWorkspace& workspace_;
  int64_t tile_;  // queries of a tile
  int64_t tasks_ = 0;
};

inline void Attention(const AttentionShape& shape, std::span<const AttentionSequence> sequences, const void* keys,
                      const void* values, const float* queries, int64_t q_stride, float* out, int64_t out_stride,
                      AttentionWorkspace& workspace, TaskRunner& pool) {
  const AttentionCall call(shape, sequences, keys, values, queries, q_stride, out, out_stride, workspace,
                           pool.threads());
  pool.Run(call.tasks(), [&](int64_t task, int worker) { call.Run(task, worker); });
}

}  // namespace baton::cpu
