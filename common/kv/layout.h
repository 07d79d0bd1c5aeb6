#pragma once

// Where KV bytes lie in the pool: [block][layer][k|v][kv_head][slot][head_dim], block-major, so that a block moves and
// hashes as one piece and a layer of a block is one run.

#include <cstdint>

#include "common/base/dtype.h"
#include "common/base/ids.h"

namespace baton {

inline constexpr uint32_t kLayoutVersion = 1;

struct KvLayout {
  DType dtype = DType::kBF16;  // f32, f16 or bf16
  uint32_t layers = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t block_size = 16;  // tokens a block; 16 or 32

  uint64_t BytesPerToken() const { return uint64_t{2} * layers * kv_heads * head_dim * BlockOf(dtype).bytes; }
  uint64_t BytesPerBlock() const { return BytesPerToken() * block_size; }
  uint32_t BlocksFor(uint64_t tokens) const { return static_cast<uint32_t>((tokens + block_size - 1) / block_size); }

  // Elements (not bytes) from the pool's start to slot 0 of a head: keys for kv = 0, values for kv = 1.
  uint64_t ElementOffset(BlockId block, uint32_t layer, uint32_t kv, uint32_t head) const {
    return (((uint64_t{block} * layers + layer) * 2 + kv) * kv_heads + head) * block_size * head_dim;
  }

  // Equal hashes: blocks may be exchanged byte for byte.
  LayoutHash Hash() const;

  friend bool operator==(const KvLayout&, const KvLayout&) = default;
};

}  // namespace baton
