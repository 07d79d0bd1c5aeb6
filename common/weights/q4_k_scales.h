#pragma once

#include <cstdint>

namespace baton::weights {

// Of q4_k and q5_k: eight 6-bit scales and eight 6-bit minimums in 12 bytes: 0-3 in the low 6 bits of bytes 0-3 and
// 4-7; 4-7 have their low halves in bytes 8-11 and their upper two bits on top of bytes 0-7.
inline void UnpackQ4_KScales(const uint8_t* in, int index, float* scale, float* minimum) {
  if (index < 4) {
    *scale = static_cast<float>(in[index] & 63);
    *minimum = static_cast<float>(in[index + 4] & 63);
  } else {
    *scale = static_cast<float>((in[index + 4] & 15) | ((in[index - 4] >> 6) << 4));
    *minimum = static_cast<float>((in[index + 4] >> 4) | ((in[index] >> 6) << 4));
  }
}

}  // namespace baton::weights
