#pragma once

// What the CUDA runner and its ranks say to each other: limits, a step's shape, and where a step's inputs lie.

#include <cstddef>
#include <cstdint>

#include "common/base/ids.h"
#include "kernels/cuda/prefill_attention.h"

namespace baton {

struct CudaRunnerOptions {
  uint32_t max_step_tokens = 512;
  uint32_t max_batch = 64;
  bool graphs = true;
  bool deterministic = false;
  uint32_t swap_blocks = 0;  // of the swap area in pinned host memory
};

// What a step enqueues, but for its inputs; the same on every rank.
struct CudaStepShape {
  int64_t rows = 0;
  int64_t decode_rows = 0;  // the first rows: attention as in a decode step
  int64_t tiles = 0;        // of prefill attention, for the rows behind them
  int64_t wanted = 0;       // rows whose logits are computed
  bool gathered = false;    // they lie anywhere; else they are the first rows
  int64_t max_length = 0;   // of the sequences of decode rows
  int64_t tables = 0;       // rows of the block tables

  // Rows of the logits, padding included.
  int64_t head_rows() const { return wanted == 0 || gathered ? wanted : rows; }
};

// Of the arrays below.
struct CudaStepLimits {
  uint64_t rows = 0;
  uint64_t batch = 0;
  uint64_t tiles = 0;
  int32_t table_stride = 0;  // entries of a sequence's block table
};

// A step's inputs, at the same offsets in the runner's pinned memory and in each rank's device memory.
struct CudaStepInputs {
  TokenId* tokens = nullptr;           // [rows]
  int32_t* positions = nullptr;        // [rows]; negative: padding
  int32_t* sequences = nullptr;        // [rows]
  BlockId* wanted = nullptr;           // [batch]: rows, as "blocks" of the residual stream
  cuda::PrefillTile* tiles = nullptr;  // [tiles]
  BlockId* tables = nullptr;           // [batch, table_stride]
  uint64_t bytes = 0;

  // With `memory` null, only `bytes` means something.
  static CudaStepInputs In(std::byte* memory, const CudaStepLimits& limits);
};

}  // namespace baton
