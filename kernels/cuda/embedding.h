#pragma once

// Embedding lookup into the residual stream.

#include <cstdint>

#include "common/base/dtype.h"
#include "common/base/ids.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

// hidden[i] = row tokens[i] of table. table: [vocab, width] f32, f16 or bf16; hidden: [rows, width] f32. width: a
// multiple of 4. Every token id is below vocab.
Error Embedding(DType dtype, const void* table, const TokenId* tokens, int64_t rows, int64_t width, float* hidden,
                Stream stream);

}  // namespace baton::cuda
