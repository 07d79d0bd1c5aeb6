#pragma once

// Storage formats of activations, weights and KV, told apart by type; arithmetic is f32. Conversions round to nearest
// even and give the same bits as common/base/dtype.h.

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "common/base/dtype.h"

// Before a loop over registers: unrolled on a device, where an index must be a constant; a host need not.
#if defined(__CUDACC__)
#define BATON_UNROLL _Pragma("unroll")
#else
#define BATON_UNROLL
#endif

namespace baton::cuda {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

// E4M3, DType::kF8: for stored keys and values alone.
struct F8 {
  uint8_t bits;
};

template <typename T>
inline constexpr bool IsBF16 = std::is_same_v<T, BF16>;

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(BF16 value) {
#if defined(__CUDACC__)
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
#else
  return F32FromBF16(value.bits);
#endif
}
__device__ __forceinline__ float ToFloat(F16 value) {
#if defined(__CUDACC__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  return F32FromF16(value.bits);
#endif
}

// An f16 with the same fraction and an exponent whose bias is 8 less. The largest code is not a number.
__device__ __forceinline__ float ToFloat(F8 value) {
  const int size = value.bits & 0x7f;
  return ToFloat(F16{static_cast<uint16_t>((value.bits & 0x80) << 8 | (size == 0x7f ? 0x7fff : size << 7))}) * 256.0f;
}
// By integers, so that every architecture gives the same bits. Beyond 448, infinities too: 448. NaN stays one, so that
// a broken computation shows in the logits of whoever reads it.
__device__ __forceinline__ F8 ToF8(float value) {
  if (value != value) return {0x7f};
  const float size = fminf(fabsf(value), 448.0f);
  constexpr float kSmallestNormal = 0x1p-6f;
  uint32_t bits;
  if (size < kSmallestNormal) {
    bits = static_cast<uint32_t>(rintf(size * 512.0f));  // halfway between two: the even one
  } else {
#if defined(__CUDACC__)
    bits = __float_as_uint(size);
#else
    bits = std::bit_cast<uint32_t>(size);
#endif
    bits = ((bits + 0x7ffff + (bits >> 20 & 1)) >> 20) - (120u << 3);
  }
  return {static_cast<uint8_t>(bits | (value < 0 ? 0x80 : 0))};
}

template <typename T>
__device__ __forceinline__ T FromFloat(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, F8>) {
    return ToF8(value);
  } else {
    T result;
#if defined(__CUDACC__)
    if constexpr (IsBF16<T>) {
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    } else {
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    }
#else
    result.bits = IsBF16<T> ? BF16FromF32(value) : F16FromF32(value);
#endif
    return result;
  }
}

// Two 16-bit numbers in a register, `low` in the lower half.
template <typename T>
__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  return static_cast<uint32_t>(FromFloat<T>(low).bits) | static_cast<uint32_t>(FromFloat<T>(high).bits) << 16;
}

// kCount neighbours that are loaded and stored at once; the address is a multiple of their size.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

template <typename T, int kCount>
__device__ __forceinline__ void LoadFloats(const T* from, float (&values)[kCount]) {
  constexpr int kAtOnce = sizeof(T) * kCount > 16 ? static_cast<int>(16 / sizeof(T)) : kCount;
  BATON_UNROLL
  for (int i = 0; i < kCount; i += kAtOnce) {
    const auto pack = *reinterpret_cast<const Pack<T, kAtOnce>*>(from + i);
    BATON_UNROLL
    for (int j = 0; j < kAtOnce; ++j) values[i + j] = ToFloat(pack.values[j]);
  }
}

template <typename T, int kCount>
__device__ __forceinline__ void StoreFloats(const float (&values)[kCount], T* to) {
  constexpr int kAtOnce = sizeof(T) * kCount > 16 ? static_cast<int>(16 / sizeof(T)) : kCount;
  BATON_UNROLL
  for (int i = 0; i < kCount; i += kAtOnce) {
    Pack<T, kAtOnce> pack;
    BATON_UNROLL
    for (int j = 0; j < kAtOnce; ++j) pack.values[j] = FromFloat<T>(values[i + j]);
    *reinterpret_cast<Pack<T, kAtOnce>*>(to + i) = pack;
  }
}

// Calls body(T()) with the type that stores `dtype`, one of f32, f16 and bf16; kInvalidValue for others.
#define BATON_FOR_NUMBER(dtype, T, ...) \
  switch (dtype) {                      \
    case DType::kF32: {                 \
      using T = float;                  \
      return __VA_ARGS__;               \
    }                                   \
    case DType::kF16: {                 \
      using T = F16;                    \
      return __VA_ARGS__;               \
    }                                   \
    case DType::kBF16: {                \
      using T = BF16;                   \
      return __VA_ARGS__;               \
    }                                   \
    default:                            \
      return Error::kInvalidValue;      \
  }

}  // namespace baton::cuda
