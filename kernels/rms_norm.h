#pragma once

// Root-mean-square norm: y = x / sqrt(mean(x^2) + eps) * weight. The sum of squares has 16 lanes (lane j adds elements
// j, j + 16, ...), added by halves.

#include <cstdint>

namespace baton::cpu {

// x, y: [rows, width], row strides x_stride and y_stride; may be the same memory. weight: [width].
void RmsNorm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t rows, int64_t width, float* y,
             int64_t y_stride);

// hidden += delta, then y = norm(hidden). hidden, y: [rows, width] dense; delta: row stride delta_stride.
void AddRmsNorm(float* hidden, const float* delta, int64_t delta_stride, const float* weight, float eps, int64_t rows,
                int64_t width, float* y);

}  // namespace baton::cpu
