#pragma once

// Where KV bytes lie in the pool: [block][layer][k|v][kv_head], block-major, so that a block moves and hashes as one
// piece and a layer of a block is one run. A head's piece holds values as [slot][head_dim], and keys in the order that
// the engine's attention reads them. int8 numbers are followed by one f32 scale per slot: value = number * scale.

#include <cstdint>

#include "common/base/dtype.h"
#include "common/base/ids.h"

namespace baton {

inline constexpr uint32_t kLayoutVersion = 3;

// Inside a head's piece.
enum class KeyOrder : uint8_t {
  kBySlot,     // [slot][head_dim]
  kByElement,  // [head_dim][slot]: one vector takes the same element of neighbouring positions
};

struct KvLayout {
  DType dtype = DType::kBF16;  // f32, f16, bf16, int8 or fp8
  uint32_t layers = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t block_size = 16;  // tokens a block; 16 or 32
  KeyOrder key_order = KeyOrder::kBySlot;

  uint64_t BytesPerToken() const { return uint64_t{2} * layers * kv_heads * HeadTokenBytes(); }
  uint64_t BytesPerBlock() const { return BytesPerToken() * block_size; }
  uint32_t BlocksFor(uint64_t tokens) const { return static_cast<uint32_t>((tokens + block_size - 1) / block_size); }

  // Of a head's piece of a block, keys or values; its scales, if any, are the last block_size floats of it.
  uint64_t HeadBytes() const { return HeadTokenBytes() * block_size; }
  // Bytes from the pool's start to a head's piece: keys for kv = 0, values for kv = 1.
  uint64_t HeadOffset(BlockId block, uint32_t layer, uint32_t kv, uint32_t head) const {
    return (((uint64_t{block} * layers + layer) * 2 + kv) * kv_heads + head) * HeadBytes();
  }
  bool has_scales() const { return dtype == DType::kI8; }

  // Equal hashes: blocks may be exchanged, byte for byte but for the order of their keys, which a writer puts into the
  // target's.
  LayoutHash Hash() const;

  friend bool operator==(const KvLayout&, const KvLayout&) = default;

 private:
  uint64_t HeadTokenBytes() const { return BytesOf(dtype, head_dim) + (has_scales() ? sizeof(float) : 0); }
};

}  // namespace baton
