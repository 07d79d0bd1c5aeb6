#pragma once

// y = silu(gate) * up, silu(g) = g / (1 + exp(-g)).

#include <cstdint>

namespace baton::cpu {

// gate_up: [rows, 2 * width], gate first, row stride `stride`. y: [rows, width] dense.
void SwiGlu(const float* gate_up, int64_t stride, int64_t rows, int64_t width, float* y);

}  // namespace baton::cpu
