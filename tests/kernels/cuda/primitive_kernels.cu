#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"
#include "tests/kernels/cuda/primitive_kernels.h"

namespace baton::cuda {
namespace {

__global__ void BlockSumsKernel(const float* in, float* out) {
  SharedArena shared;
  float* sums = shared.Take<float>(8);
  const float sum = WarpSum(in[blockIdx.x * 256 + threadIdx.x]);
  if (Lane() == 0) sums[WarpIndex()] = sum;
  BlockBarrier();
  if (threadIdx.x == 0) {
    float total = 0;
    for (int warp = 0; warp < 8; ++warp) total += sums[warp];
    out[blockIdx.x] = total;
  }
}

__global__ void ShufflesKernel(const int32_t* in, int32_t* out) {
  const int lane = Lane();
  const int32_t value = in[lane];
  out[lane] = ShuffleXor(value, 5);
  out[32 + lane] = Shuffle(value, 3);
  out[64 + lane] = ShuffleUp(value, 2);
  out[96 + lane] = static_cast<int32_t>(Ballot(value > 0));
  const uint64_t wide = Shuffle(static_cast<uint64_t>(value) << 33 | 1u, lane ^ 1);
  out[128 + lane] = static_cast<int32_t>(wide >> 24);
}

template <typename T>
__global__ void TileProductKernel(const uint16_t* a, const uint16_t* b_transposed, const uint16_t* b, bool by_matrices,
                                  float* d) {
  SharedArena shared;
  uint16_t* tile_a = shared.Take<uint16_t>(16 * 16);
  uint16_t* tile_b = shared.Take<uint16_t>(16 * 8);
  const int lane = Lane();
  for (int i = lane; i < 256; i += kWarp) tile_a[i] = a[i];
  for (int i = lane; i < 128; i += kWarp) tile_b[i] = b[i];
  WarpBarrier();
  const int g = lane / 4, t = lane % 4 * 2;
  const auto pair = [](const uint16_t* from) {
    return static_cast<uint32_t>(from[0]) | static_cast<uint32_t>(from[1]) << 16;
  };
  uint32_t fragment_a[4], fragment_b[2];
  if (by_matrices) {
    LoadMatrices(fragment_a, tile_a + (lane % 8 + lane / 8 % 2 * 8) * 16 + lane / 16 * 8);
    uint32_t matrices[4];
    LoadMatricesTransposed(matrices, tile_b + lane % 16 * 8);
    fragment_b[0] = matrices[0];
    fragment_b[1] = matrices[1];
  } else {
    fragment_a[0] = pair(a + g * 16 + t);
    fragment_a[1] = pair(a + (g + 8) * 16 + t);
    fragment_a[2] = pair(a + g * 16 + t + 8);
    fragment_a[3] = pair(a + (g + 8) * 16 + t + 8);
    fragment_b[0] = pair(b_transposed + g * 16 + t);
    fragment_b[1] = pair(b_transposed + g * 16 + t + 8);
  }
  float sums[4] = {};
  MultiplyTiles<T>(sums, fragment_a, fragment_b);
  for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + t + i % 2] = sums[i];
}

__global__ void CopyThroughSharedKernel(const unsigned char* in, int valid, unsigned char* out) {
  SharedArena shared;
  unsigned char* bytes = shared.Take<unsigned char>(1024);
  const int at = Lane() * 16;
  for (int half = 0; half < 2; ++half) {
    CopyAsync16(bytes + half * 512 + at, in + half * 512 + at, half * 512 + at < valid);
    CommitCopies();
  }
  // Each lane takes what another one copied.
  const int from = (at + 16) % 512;
  WaitCopies<1>();
  WarpBarrier();
  for (int i = 0; i < 16; ++i) out[from + i] = bytes[from + i];
  WaitCopies<0>();
  WarpBarrier();
  for (int i = 0; i < 16; ++i) out[512 + from + i] = bytes[512 + from + i];
}

__global__ void AtomicSumsKernel(const uint32_t* in, int count, uint64_t* sums) {
  SharedArena shared;
  uint32_t* sum = shared.Take<uint32_t>(1);
  if (threadIdx.x == 0) *sum = 0;
  BlockBarrier();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    AtomicAdd(sum, in[i]);
    AtomicAdd(&sums[1], uint64_t{in[i]});
  }
  BlockBarrier();
  if (threadIdx.x == 0) AtomicAdd(&sums[0], uint64_t{*sum});
}

template <typename T>
__global__ void ConvertKernel(const float* from, int count, uint16_t* to, float* back, float* powers) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const T number = FromFloat<T>(from[i]);
  to[i] = number.bits;
  back[i] = ToFloat(number);
  powers[i] = Exp2(from[i]);
}

__global__ void ConvertF8Kernel(const float* from, int count, uint8_t* to, float* back) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const F8 number = FromFloat<F8>(from[i]);
  to[i] = number.bits;
  back[i] = ToFloat(number);
}

}  // namespace

Error BlockSums(const float* in, int blocks, float* out, Stream stream) {
  return Launch(BlockSumsKernel, {dim3(blocks), dim3(256), SharedBytes<float>(8), stream}, in, out);
}

Error Shuffles(const int32_t* in, int32_t* out, Stream stream) {
  return Launch(ShufflesKernel, {dim3(1), dim3(kWarp), 0, stream}, in, out);
}

Error TileProduct(DType dtype, const uint16_t* a, const uint16_t* b_transposed, const uint16_t* b, bool by_matrices,
                  float* d, Stream stream) {
  const LaunchShape shape{dim3(1), dim3(kWarp), SharedBytes<uint16_t>(256) + SharedBytes<uint16_t>(128), stream};
  if (dtype == DType::kBF16) return Launch(TileProductKernel<BF16>, shape, a, b_transposed, b, by_matrices, d);
  return Launch(TileProductKernel<F16>, shape, a, b_transposed, b, by_matrices, d);
}

Error CopyThroughShared(const void* in, int valid, void* out, Stream stream) {
  return Launch(CopyThroughSharedKernel, {dim3(1), dim3(kWarp), 1024, stream}, static_cast<const unsigned char*>(in),
                valid, static_cast<unsigned char*>(out));
}

Error AtomicSums(const uint32_t* in, int count, uint64_t* sums, Stream stream) {
  return Launch(AtomicSumsKernel, {dim3(CeilDiv(count, 64)), dim3(64), SharedBytes<uint32_t>(1), stream}, in, count,
                sums);
}

Error Convert(DType dtype, const float* from, int count, uint16_t* to, float* back, float* powers, Stream stream) {
  const LaunchShape shape{dim3(CeilDiv(count, 64)), dim3(64), 0, stream};
  if (dtype == DType::kBF16) return Launch(ConvertKernel<BF16>, shape, from, count, to, back, powers);
  return Launch(ConvertKernel<F16>, shape, from, count, to, back, powers);
}

Error ConvertF8(const float* from, int count, uint8_t* to, float* back, Stream stream) {
  return Launch(ConvertF8Kernel, {dim3(CeilDiv(count, 64)), dim3(64), 0, stream}, from, count, to, back);
}

}  // namespace baton::cuda
