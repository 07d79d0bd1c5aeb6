#pragma once

// One warp's use of every primitive, for their test.

#include <cstdint>

#include "common/base/dtype.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

// out[block] = sum of in[block * 256 ... + 256), by shuffles and shared memory.
Error BlockSums(const float* in, int blocks, float* out, Stream stream);
// out[0..31] = in[lane ^ 5], then in[3], in[lane - 2] (own below 2), the ballot of in > 0, exact high products.
Error Shuffles(const int32_t* in, int32_t* out, Stream stream);
// d [16, 8] f32 = a [16, 16] b, with b_transposed [8, 16]; both 16-bit and row-major. Fragments come by LoadMatrices
// when `by_matrices`, for b from b [16, 8] transposed then.
Error TileProduct(DType dtype, const uint16_t* a, const uint16_t* b_transposed, const uint16_t* b, bool by_matrices,
                  float* d, Stream stream);
// out = in by asynchronous copies through shared memory, in two groups; bytes at and beyond `valid` become zero. Both
// are 1024 bytes.
Error CopyThroughShared(const void* in, int valid, void* out, Stream stream);
// sums[0] += all of in, a number a thread; sums[1] the same with 64 bits.
Error AtomicSums(const uint32_t* in, int count, uint64_t* sums, Stream stream);
// to[i] = number(from[i]) for a 16-bit format, back[i] = its value; powers[i] = 2^from[i].
Error Convert(DType dtype, const float* from, int count, uint16_t* to, float* back, float* powers, Stream stream);

// to[i] = from[i] as fp8, back[i] = its value.
Error ConvertF8(const float* from, int count, uint8_t* to, float* back, Stream stream);

}  // namespace baton::cuda
