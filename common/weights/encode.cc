#include "common/weights/encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/status.h"

namespace baton::weights {
namespace {

constexpr int kBlock = 32;  // elements of a q8_0 or q4_0 block
constexpr int kQ8Bytes = 34, kQ4Bytes = 18;

void Store16(uint16_t bits, std::byte* out) { std::memcpy(out, &bits, sizeof(bits)); }

// Scale (f16), then 32 signed bytes.
void EncodeQ8_0(const float* values, std::byte* out) {
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(values[i]));
  // f16 has no power of two below 2^-24.
  const float scale = largest == 0 ? 0.0f : std::exp2(std::max(-24.0f, std::ceil(std::log2(largest / 127.0f))));
  Store16(F16FromF32(scale), out);
  for (int i = 0; i < kBlock; ++i) {
    const float quotient = scale == 0 ? 0.0f : std::nearbyint(values[i] / scale);
    out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::clamp(quotient, -127.0f, 127.0f)));
  }
}

// Scale (f16), then 16 bytes: value i in the low half of byte i, value i + 16 in its high half, both offset by 8.
void EncodeQ4_0(const float* values, std::byte* out) {
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) {
    if (std::fabs(values[i]) > std::fabs(largest)) largest = values[i];
  }
  const uint16_t stored = F16FromF32(largest / -8.0f);
  Store16(stored, out);
  const float scale = F32FromF16(stored);
  const auto level = [&](float value) {
    return scale == 0 ? 8 : std::clamp(static_cast<int>(std::nearbyint(value / scale)) + 8, 0, 15);
  };
  for (int i = 0; i < kBlock / 2; ++i) {
    out[2 + i] = static_cast<std::byte>(level(values[i]) | level(values[i + kBlock / 2]) << 4);
  }
}

}  // namespace

bool CanEncode(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kQ8_0 ||
         dtype == DType::kQ4_0;
}

void Encode(DType dtype, const float* values, uint64_t elements, std::byte* out) {
  BATON_CHECK(CanEncode(dtype) && elements % BlockOf(dtype).elements == 0);
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, values, elements * sizeof(float));
      return;
    case DType::kF16:
      for (uint64_t i = 0; i < elements; ++i) Store16(F16FromF32(values[i]), out + 2 * i);
      return;
    case DType::kBF16:
      for (uint64_t i = 0; i < elements; ++i) Store16(BF16FromF32(values[i]), out + 2 * i);
      return;
    case DType::kQ8_0:
      for (uint64_t i = 0; i < elements; i += kBlock) EncodeQ8_0(values + i, out + i / kBlock * kQ8Bytes);
      return;
    default:
      for (uint64_t i = 0; i < elements; i += kBlock) EncodeQ4_0(values + i, out + i / kBlock * kQ4Bytes);
  }
}

}  // namespace baton::weights
