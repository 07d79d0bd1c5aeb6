#pragma once

// y = silu(gate) * up, silu(g) = g / (1 + exp(-g)).

#include <cstdint>

#include "common/base/dtype.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

// gate_up: [rows, 2 * width], gate first; y: [rows, width]; both f32, f16 or bf16. width is a multiple of 8.
Error SwiGlu(DType dtype, const void* gate_up, int64_t rows, int64_t width, void* y, Stream stream);

}  // namespace baton::cuda
