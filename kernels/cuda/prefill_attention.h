#pragma once

// Paged causal attention of prompt chunks on tensor cores.
//
// FlashAttention-2 (Dao 2023, algorithm 1): a block holds 64 rows of queries in registers and goes over the keys and
// values they see in tiles of 64 positions, copied to shared memory while the tile before is computed, with online
// softmax. A row is one query of one head; all heads of a kv head lie side by side in a block's rows, so grouped
// queries share every tile. Tiles start at multiples of 64 positions, so a row's bits do not depend on how the prompt
// was cut.

#include <cstdint>
#include <vector>

#include "kernels/cuda/paged_kv.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

inline constexpr int32_t kPrefillRows = 64;

// The work of one block for one kv head.
struct PrefillTile {
  int32_t sequence = 0;   // row of the block tables
  int32_t first_row = 0;  // of the sequence's queries in the batch
  int32_t queries = 0;    // of the sequence
  int32_t position = 0;   // of its first query
  int32_t first = 0;      // rows before this tile, a row being a query of a head of the group
};

// The tiles of a sequence whose queries are rows [first_row, first_row + queries) of the batch; `group` heads share a
// kv head. On the host, for a copy to the device.
inline void AppendPrefillTiles(int32_t sequence, int32_t first_row, int32_t queries, int32_t position, int32_t group,
                               std::vector<PrefillTile>& tiles) {
  for (int32_t first = 0; first < queries * group; first += kPrefillRows) {
    tiles.push_back({sequence, first_row, queries, position, first});
  }
}

struct PrefillAttentionShape {
  int32_t heads = 0;     // a multiple of kv_heads
  int32_t window = 0;    // 0: all; W: position p sees (p - W, p]
  float scale = 1.0f;    // of the scores; above 0
  int64_t q_stride = 0;  // elements from a row's queries to the next's; a multiple of 8
};

// Whether the kernel takes this format and head_dim: f16 or bf16, also with keys and values stored as fp8, which are
// widened on their way to shared memory; 64 or 128.
bool TakesPrefill(const PagedKv& kv);

// tiles: [tile_count] on the device. queries: [rows, heads * head_dim], rows q_stride apart; out: [rows, heads *
// head_dim], dense; both of kv.dtype.
Error PrefillAttention(const PrefillAttentionShape& shape, const PagedKv& kv, const BlockId* block_tables,
                       int32_t table_stride, const PrefillTile* tiles, int64_t tile_count, const void* queries,
                       void* out, Stream stream);

}  // namespace baton::cuda
