#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"
#include "kernels/cuda/rms_norm.h"

namespace baton::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kEach = 4;  // elements a thread loads and stores at once
constexpr int kHeld =
    8;  // ... and how many times it holds them in registers; what is beyond comes out of the cache again

// A block is one row.
template <typename T, typename Delta>
__global__ void __launch_bounds__(kThreads, 2)
    AddRmsNormKernel(float* __restrict__ hidden, const Delta* __restrict__ delta, int parts,
                     const float* __restrict__ bias, const float* __restrict__ weight, float eps, int64_t width,
                     T* __restrict__ y) {
  SharedArena shared;
  float* warp_sums = shared.Take<float>(kWarps);
  const int64_t start = int64_t{blockIdx.x} * width;
  float held[kHeld][kEach], sum = 0;
  // The elements from `i` on, with what is added to them.
  const auto load = [&](int64_t i, float(&values)[kEach]) {
    LoadFloats(hidden + start + i, values);
    if (delta == nullptr) return;
    float added[kEach], more[kEach];
    LoadFloats(delta + start + i, added);
    for (int part = 1; part < parts; ++part) {
      LoadFloats(delta + int64_t{part} * gridDim.x * width + start + i, more);
      BATON_UNROLL
      for (int j = 0; j < kEach; ++j) added[j] += more[j];
    }
    BATON_UNROLL
    for (int j = 0; j < kEach; ++j) values[j] += added[j];
    if (bias == nullptr) return;
    LoadFloats(bias + i, more);
    BATON_UNROLL
    for (int j = 0; j < kEach; ++j) values[j] += more[j];
  };
  const auto add = [&](int64_t i, const float(&values)[kEach]) {
    if (delta != nullptr) StoreFloats(values, hidden + start + i);
    BATON_UNROLL
    for (int j = 0; j < kEach; ++j) sum = fmaf(values[j], values[j], sum);
  };
  const auto at = [&](int round) { return (int64_t{round} * kThreads + threadIdx.x) * kEach; };
  BATON_UNROLL
  for (int round = 0; round < kHeld; ++round) {  // all loads before any of them is needed
    if (at(round) < width) load(at(round), held[round]);
  }
  BATON_UNROLL
  for (int round = 0; round < kHeld; ++round) {
    if (at(round) < width) add(at(round), held[round]);
  }
  for (int round = kHeld; at(round) < width; ++round) {
    float values[kEach];
    load(at(round), values);
    add(at(round), values);
  }
  sum = WarpSum(sum);
  if (Lane() == 0) warp_sums[WarpIndex()] = sum;
  BlockBarrier();
  sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += warp_sums[warp];
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(width) + eps);
  const auto store = [&](int64_t i, float(&values)[kEach]) {
    float weights[kEach];
    LoadFloats(weight + i, weights);
    BATON_UNROLL
    for (int j = 0; j < kEach; ++j) values[j] = values[j] * factor * weights[j];
    StoreFloats(values, y + start + i);
  };
  BATON_UNROLL
  for (int round = 0; round < kHeld; ++round) {
    if (at(round) < width) store(at(round), held[round]);
  }
  for (int round = kHeld; at(round) < width; ++round) {
    float values[kEach];
    LoadFloats(hidden + start + at(round), values);
    store(at(round), values);
  }
}

template <typename T, typename Delta>
Error Run(float* hidden, const Delta* delta, int parts, const float* bias, const float* weight, float eps, int64_t rows,
          int64_t width, void* y, Stream stream) {
  return Launch(AddRmsNormKernel<T, Delta>,
                {dim3(static_cast<unsigned>(rows)), dim3(kThreads), SharedBytes<float>(kWarps), stream}, hidden, delta,
                parts, bias, weight, eps, width, static_cast<T*>(y));
}

}  // namespace

Error AddRmsNorm(DType dtype, float* hidden, const void* delta, const float* bias, const float* weight, float eps,
                 int64_t rows, int64_t width, void* y, Stream stream) {
  if (width % kEach != 0) return Error::kInvalidValue;
  BATON_FOR_NUMBER(dtype, T,
                   (Run<T, T>(hidden, static_cast<const T*>(delta), 1, bias, weight, eps, rows, width, y, stream)))
}

Error AddPartialsRmsNorm(DType dtype, float* hidden, const float* partials, int parts, const float* bias,
                         const float* weight, float eps, int64_t rows, int64_t width, void* y, Stream stream) {
  if (width % kEach != 0) return Error::kInvalidValue;
  BATON_FOR_NUMBER(dtype, T, (Run<T, float>(hidden, partials, parts, bias, weight, eps, rows, width, y, stream)))
}

}  // namespace baton::cuda
