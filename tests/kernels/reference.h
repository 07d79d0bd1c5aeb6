#pragma once

// Plain scalar implementations of every kernel, in the order of additions that the kernels' headers state: they define
// the bits. The kernels must equal them exactly.

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace baton::reference {

float Exp(float x);

// x: [rows, inputs], w: [outputs, inputs] already rounded to its format, bias: [outputs] or empty. [rows, outputs].
std::vector<float> Linear(const std::vector<float>& w, const std::vector<float>& bias, const std::vector<float>& x,
                          int64_t rows, int64_t inputs, int64_t outputs);

// Rows rounded to 8 bits, group by group.
struct QuantizedRow {
  std::vector<int> values;    // [groups * 32]
  std::vector<float> scales;  // [groups]
};
QuantizedRow QuantizeRow(const float* x, int64_t inputs);

// w: [outputs] rows of a quantised matrix, taken apart: whole numbers (codes minus their offset), scales and minimums.
struct WholeRow {
  std::vector<int> values;      // [inputs]
  std::vector<float> scales;    // [groups]
  std::vector<float> minimums;  // [groups] or empty
};
std::vector<float> QuantizedLinear(const std::vector<WholeRow>& w, const std::vector<float>& bias,
                                   const std::vector<float>& x, int64_t rows, int64_t inputs);

// One row [width].
std::vector<float> RmsNorm(const float* x, const std::vector<float>& weight, float eps);

// One head [head_dim] in place.
void Rope(const std::vector<float>& cosine, const std::vector<float>& sine, float* x, int64_t head_dim);

float SwiGlu(float gate, float up);

// Keys or values of one kv head: [positions][head_dim], already rounded to the pool's format; with int8, whole numbers
// and a scale for each position.
struct KvRows {
  std::vector<std::vector<float>> rows;
  std::vector<float> scales;  // empty: none
};

// One query of one head, which sees positions [begin, end). [head_dim].
std::vector<float> Attention(const float* query, const KvRows& keys, const KvRows& values, int64_t begin, int64_t end,
                             float scale);

}  // namespace baton::reference
