#pragma once

// Root-mean-square norm with the residual stream's addition before it.

#include <cstdint>

#include "common/base/dtype.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

// hidden += delta (+ bias), then y = hidden / sqrt(mean(hidden^2) + eps) * weight.
// hidden: [rows, width] f32. delta: [rows, width] of `dtype`, or null: nothing is added. bias, weight: [width] f32;
// bias may be null. y: [rows, width] of `dtype`, f32, f16 or bf16. width: a multiple of 4,
// rows are aligned to as many elements. A row's sum has one order, whatever the number of rows.
Error AddRmsNorm(DType dtype, float* hidden, const void* delta, const float* bias, const float* weight, float eps,
                 int64_t rows, int64_t width, void* y, Stream stream);

// The same for a delta that is the sum of `parts` arrays, added in their order: partials: [parts, rows, width] f32.
Error AddPartialsRmsNorm(DType dtype, float* hidden, const float* partials, int parts, const float* bias,
                         const float* weight, float eps, int64_t rows, int64_t width, void* y, Stream stream);

}  // namespace baton::cuda
