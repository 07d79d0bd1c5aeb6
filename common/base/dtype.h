#pragma once

// Number formats of weights and KV, and scalar conversions between the 16-bit ones and f32.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace baton {

// KV only: kI8, whole numbers whose scales lie apart; kF8, E4M3 (Micikevicius et al. 2022, "FP8 formats for deep
// learning"), which is finite: what is beyond 448 becomes 448, NaN stays one.
enum class DType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ4_K, kQ5_K, kQ6_K, kI8, kF8 };

// "f32", "bf16", "q4_k", ...
std::string_view DTypeName(DType dtype);

// Elements in one block of the format and that block's bytes: 1 and 4 for f32, 32 and 34 for q8_0, 256 and 144 for
// q4_k.
struct DTypeBlock {
  uint32_t elements;
  uint32_t bytes;
};
DTypeBlock BlockOf(DType dtype);

// Bytes of `elements` values; `elements` must be a whole number of blocks.
inline uint64_t BytesOf(DType dtype, uint64_t elements) {
  const DTypeBlock block = BlockOf(dtype);
  return elements / block.elements * block.bytes;
}

inline float F32FromBF16(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

// Round to nearest even; NaN stays a quiet NaN.
inline uint16_t BF16FromF32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float F32FromF16(uint16_t value);
// Round to nearest even; overflow gives infinity.
uint16_t F16FromF32(float value);

}  // namespace baton
