#pragma once

// y = silu(gate) * up, silu(g) = g / (1 + exp(-g)).

#include <cstdint>

namespace baton::cpu {

// gate, up, y: [width].
void SwiGlu(const float* gate, const float* up, int64_t width, float* y);

}  // namespace baton::cpu
