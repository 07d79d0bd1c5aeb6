#pragma once

// How a step's rows and one layer's keys and values lie on the device; shared by the kernels that write and read KV.

#include <cstdint>

#include "common/base/dtype.h"
#include "common/base/ids.h"

namespace baton::cuda {

// One layer of the pool: [block][...][kv_head][slot][head_dim], as common/kv/layout.h says.
struct PagedKv {
  DType dtype = DType::kBF16;  // f32, f16 or bf16: that of the activations beside it
  void* keys = nullptr;        // slot 0 of head 0 of block 0 in this layer
  void* values = nullptr;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;      // a multiple of 8, at most 256
  int32_t block_size = 0;    // a power of two
  int64_t block_stride = 0;  // elements from a block to the next
  // Stored as fp8 (E4M3) instead, a byte an element; dtype, f16 or bf16, is that of the activations alone. What is
  // stored is divided by its scale.
  bool fp8 = false;
  float key_scale = 1.0f;
  float value_scale = 1.0f;
};

// Where the rows of a step belong; arrays of the device.
struct PagedRows {
  const int32_t* positions = nullptr;     // [rows]; negative: padding, nothing is read or written for it
  const int32_t* sequences = nullptr;     // [rows]: the row of block_tables
  const BlockId* block_tables = nullptr;  // [sequences, table_stride]
  int32_t table_stride = 0;
};

}  // namespace baton::cuda
