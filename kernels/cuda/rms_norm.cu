#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"
#include "kernels/cuda/rms_norm.h"

namespace baton::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// A block is one row; it goes over the row twice, the second time out of the cache.
template <typename T, typename Delta>
__global__ void AddRmsNormKernel(float* hidden, const Delta* delta, int parts, const float* bias, const float* weight,
                                 float eps, int64_t width, T* y) {
  SharedArena shared;
  float* warp_sums = shared.Take<float>(kWarps);
  float* row = hidden + blockIdx.x * width;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    float value = row[i];
    if (delta != nullptr) {
      float added = ToFloat(delta[blockIdx.x * width + i]);
      for (int part = 1; part < parts; ++part) {
        added += ToFloat(delta[(int64_t{part} * gridDim.x + blockIdx.x) * width + i]);
      }
      value += added;
      if (bias != nullptr) value += bias[i];
      row[i] = value;
    }
    sum = fmaf(value, value, sum);
  }
  sum = WarpSum(sum);
  if (Lane() == 0) warp_sums[WarpIndex()] = sum;
  BlockBarrier();
  sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += warp_sums[warp];
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(width) + eps);
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    y[blockIdx.x * width + i] = FromFloat<T>(row[i] * factor * weight[i]);
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
                 int64_t rows, int64_t width, void* y, Stream stream){
    BATON_FOR_NUMBER(dtype, T,
                     (Run<T, T>(hidden, static_cast<const T*>(delta), 1, bias, weight, eps, rows, width, y, stream)))}

Error AddPartialsRmsNorm(DType dtype, float* hidden, const float* partials, int parts, const float* bias,
                         const float* weight, float eps, int64_t rows, int64_t width, void* y, Stream stream) {
  BATON_FOR_NUMBER(dtype, T, (Run<T, float>(hidden, partials, parts, bias, weight, eps, rows, width, y, stream)))
}

}  // namespace baton::cuda
