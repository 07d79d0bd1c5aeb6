#include "common/weights/dequantize.h"

#include <cstring>

#include "common/weights/q4_k_scales.h"

namespace baton::weights {
namespace {

uint16_t Load16(const uint8_t* in) { return static_cast<uint16_t>(in[0] | (in[1] << 8)); }
float LoadF16(const uint8_t* in) { return F32FromF16(Load16(in)); }

// [scale f16][32 x int8]
void BlockQ8_0(const uint8_t* in, float* out) {
  const float scale = LoadF16(in);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(static_cast<int8_t>(in[2 + i]));
}

// [scale f16][16 bytes: element i in the low half, i + 16 in the high half]; values are nibble - 8
void BlockQ4_0(const uint8_t* in, float* out) {
  const float scale = LoadF16(in);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((in[2 + i] & 15) - 8);
    out[i + 16] = scale * static_cast<float>((in[2 + i] >> 4) - 8);
  }
}

// [scale f16][minimum f16][16 bytes as above]; values are scale * nibble + minimum
void BlockQ4_1(const uint8_t* in, float* out) {
  const float scale = LoadF16(in), minimum = LoadF16(in + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(in[4 + i] & 15) + minimum;
    out[i + 16] = scale * static_cast<float>(in[4 + i] >> 4) + minimum;
  }
}

// [scale f16][minimum f16][12 packed scales][128 bytes of nibbles]: 8 groups of 32; a run of 32 bytes holds group 2n in
// its low halves and 2n + 1 in its high halves.
void BlockQ4_K(const uint8_t* in, float* out) {
  const float block_scale = LoadF16(in), block_minimum = LoadF16(in + 2);
  for (int group = 0; group < 8; ++group) {
    float scale, minimum;
    UnpackQ4_KScales(in + 4, group, &scale, &minimum);
    scale *= block_scale;
    minimum *= block_minimum;
    const uint8_t* quants = in + 16 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int value = group % 2 ? quants[i] >> 4 : quants[i] & 15;
      out[group * 32 + i] = scale * static_cast<float>(value) - minimum;
    }
  }
}

// As q4_k with a fifth bit: 32 bytes between scales and nibbles, bit `group` of byte i.
void BlockQ5_K(const uint8_t* in, float* out) {
  const float block_scale = LoadF16(in), block_minimum = LoadF16(in + 2);
  const uint8_t* high = in + 16;
  for (int group = 0; group < 8; ++group) {
    float scale, minimum;
    UnpackQ4_KScales(in + 4, group, &scale, &minimum);
    scale *= block_scale;
    minimum *= block_minimum;
    const uint8_t* quants = in + 48 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int low = group % 2 ? quants[i] >> 4 : quants[i] & 15;
      out[group * 32 + i] = scale * static_cast<float>(low | (((high[i] >> group) & 1) << 4)) - minimum;
    }
  }
}

// [128 low nibbles][64 bytes of upper bit pairs][16 x int8 scales][scale f16]: two halves of 128; within a half, run j
// of 32 takes nibbles of bytes (j % 2) * 32 .. (low halves for j < 2) and bits 2j of the 32 pair bytes; values are q
// - 32.
void BlockQ6_K(const uint8_t* in, float* out) {
  const float block_scale = LoadF16(in + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = in + half * 64;
    const uint8_t* high = in + 128 + half * 32;
    const uint8_t* scales = in + 192 + half * 8;
    for (int run = 0; run < 4; ++run) {
      for (int i = 0; i < 32; ++i) {
        const uint8_t byte = low[run % 2 * 32 + i];
        const int value = ((run < 2 ? byte & 15 : byte >> 4) | (((high[i] >> (2 * run)) & 3) << 4)) - 32;
        const float scale = block_scale * static_cast<float>(static_cast<int8_t>(scales[run * 2 + i / 16]));
        out[half * 128 + run * 32 + i] = scale * static_cast<float>(value);
      }
    }
  }
}

template <typename Body>
void ForEachBlock(DType dtype, const uint8_t* in, uint64_t elements, float* out, const Body& body) {
  const DTypeBlock block = BlockOf(dtype);
  for (uint64_t i = 0; i < elements; i += block.elements, in += block.bytes) body(in, out + i);
}

}  // namespace

void Dequantize(DType dtype, const std::byte* bytes, uint64_t elements, float* out) {
  const auto* in = reinterpret_cast<const uint8_t*>(bytes);
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, in, elements * sizeof(float));
      return;
    case DType::kF16:
      for (uint64_t i = 0; i < elements; ++i) out[i] = LoadF16(in + 2 * i);
      return;
    case DType::kBF16:
      for (uint64_t i = 0; i < elements; ++i) out[i] = F32FromBF16(Load16(in + 2 * i));
      return;
    case DType::kQ8_0:
      return ForEachBlock(dtype, in, elements, out, BlockQ8_0);
    case DType::kQ4_0:
      return ForEachBlock(dtype, in, elements, out, BlockQ4_0);
    case DType::kQ4_1:
      return ForEachBlock(dtype, in, elements, out, BlockQ4_1);
    case DType::kQ4_K:
      return ForEachBlock(dtype, in, elements, out, BlockQ4_K);
    case DType::kQ5_K:
      return ForEachBlock(dtype, in, elements, out, BlockQ5_K);
    case DType::kQ6_K:
      return ForEachBlock(dtype, in, elements, out, BlockQ6_K);
    case DType::kI8:  // no weights come in these
    case DType::kF8:
      break;
  }
}

}  // namespace baton::weights
