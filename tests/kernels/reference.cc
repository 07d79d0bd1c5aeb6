#include "tests/kernels/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/linear.h"

namespace baton::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float SumHalves(float (&lanes)[16]) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

}  // namespace

float Exp(float x) {
  if (x < -87.3f) return 0.0f;
  x = std::min(x, 88.3f);
  const float n = std::fma(x, 1.44269504f, 12582912.0f) - 12582912.0f;
  const float r = std::fma(n, 2.12194440e-4f, std::fma(n, -0.693359375f, x));
  float p = 1.9875691500e-4f;
  for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = std::fma(p, r, c);
  }
  p = std::fma(p, r * r, r) + 1.0f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

std::vector<float> Linear(const std::vector<float>& w, const std::vector<float>& bias, const std::vector<float>& x,
                          int64_t rows, int64_t inputs, int64_t outputs) {
  std::vector<float> y(rows * outputs);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < outputs; ++o) {
      float total = 0;
      for (int64_t block = 0; block < inputs; block += cpu::kInputBlock) {
        float sum = 0;
        for (int64_t k = block; k < std::min(block + cpu::kInputBlock, inputs); ++k) {
          sum = std::fma(x[r * inputs + k], w[o * inputs + k], sum);
        }
        total = block == 0 ? sum : total + sum;
      }
      y[r * outputs + o] = bias.empty() ? total : total + bias[o];
    }
  }
  return y;
}

QuantizedRow QuantizeRow(const float* x, int64_t inputs) {
  QuantizedRow row;
  for (int64_t first = 0; first < inputs; first += cpu::kGroupInputs) {
    const int64_t end = std::min(first + cpu::kGroupInputs, inputs);
    float largest = 0.0f;
    for (int64_t k = first; k < end; ++k) largest = std::max(largest, std::abs(x[k]));
    const bool zero = largest < 0x1p-100f;
    row.scales.push_back(zero ? 0.0f : largest / 127.0f);
    const float factor = zero ? 0.0f : 127.0f / largest;
    for (int64_t k = first; k < first + cpu::kGroupInputs; ++k) {
      row.values.push_back(k < end ? static_cast<int>(std::nearbyint(x[k] * factor)) : 0);
    }
  }
  return row;
}

std::vector<float> QuantizedLinear(const std::vector<WholeRow>& w, const std::vector<float>& bias,
                                   const std::vector<float>& x, int64_t rows, int64_t inputs) {
  std::vector<float> y;
  for (int64_t r = 0; r < rows; ++r) {
    const QuantizedRow row = QuantizeRow(x.data() + r * inputs, inputs);
    for (size_t o = 0; o < w.size(); ++o) {
      float sum = 0.0f;
      for (size_t g = 0; g < row.scales.size(); ++g) {
        int64_t products = 0, values = 0;
        const int64_t first = static_cast<int64_t>(g) * cpu::kGroupInputs;
        for (int64_t k = first; k < std::min(first + cpu::kGroupInputs, inputs); ++k) {
          products += int64_t{row.values[k]} * w[o].values[k];
          values += row.values[k];
        }
        sum = std::fma(static_cast<float>(products), w[o].scales[g] * row.scales[g], sum);
        if (!w[o].minimums.empty()) {
          sum = std::fma(w[o].minimums[g], row.scales[g] * static_cast<float>(values), sum);
        }
      }
      y.push_back(bias.empty() ? sum : sum + bias[o]);
    }
  }
  return y;
}

std::vector<float> RmsNorm(const float* x, const std::vector<float>& weight, float eps) {
  float lanes[16] = {};
  const size_t width = weight.size();
  for (size_t i = 0; i < width; ++i) lanes[i % 16] = std::fma(x[i], x[i], lanes[i % 16]);
  const float factor = 1.0f / std::sqrt(SumHalves(lanes) / static_cast<float>(width) + eps);
  std::vector<float> y(width);
  for (size_t i = 0; i < width; ++i) y[i] = x[i] * factor * weight[i];
  return y;
}

void Rope(const std::vector<float>& cosine, const std::vector<float>& sine, float* x, int64_t head_dim) {
  const int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = std::fma(-b, sine[i], a * cosine[i]);
    x[i + half] = std::fma(a, sine[i], b * cosine[i]);
  }
}

float SwiGlu(float gate, float up) { return gate / (1.0f + Exp(-gate)) * up; }

namespace {

// What was merged of a query's ranges or segments.
struct State {
  float maximum = -kInfinity, total = 0;
  std::vector<float> sums;

  explicit State(size_t head_dim) : sums(head_dim, 0.0f) {}
  void Merge(const State& next) {
    const float merged = std::max(maximum, next.maximum);
    const float old_share = Exp(maximum - merged), new_share = Exp(next.maximum - merged);
    maximum = merged;
    total = std::fma(next.total, new_share, total * old_share);
    for (size_t e = 0; e < sums.size(); ++e) sums[e] = std::fma(next.sums[e], new_share, sums[e] * old_share);
  }
};

// Positions [first, last) of the range that starts at `start`.
State Range(const float* query, const KvRows& keys, const KvRows& values, int64_t start, int64_t first, int64_t last,
            float scale) {
  const size_t head_dim = keys.rows[0].size();
  State state(head_dim);
  std::vector<float> weights(cpu::kAttentionRange, -kInfinity);
  for (int64_t p = first; p < last; ++p) {
    float dot = 0;
    for (size_t e = 0; e < head_dim; ++e) dot = std::fma(query[e], keys.rows[p][e], dot);
    if (!keys.scales.empty()) dot *= keys.scales[p];
    weights[p - start] = dot * scale;
    state.maximum = std::max(state.maximum, dot * scale);
  }
  float lanes[16] = {};
  for (int64_t j = 0; j < cpu::kAttentionRange; ++j) {
    weights[j] = Exp(weights[j] - state.maximum);
    lanes[j % 16] += weights[j];
  }
  state.total = SumHalves(lanes);
  for (int64_t p = first; p < last; ++p) {
    const float weight = values.scales.empty() ? weights[p - start] : weights[p - start] * values.scales[p];
    for (size_t e = 0; e < head_dim; ++e) state.sums[e] = std::fma(weight, values.rows[p][e], state.sums[e]);
  }
  return state;
}

}  // namespace

std::vector<float> Attention(const float* query, const KvRows& keys, const KvRows& values, int64_t begin, int64_t end,
                             float scale) {
  const size_t head_dim = keys.rows[0].size();
  State merged(head_dim);
  for (int64_t segment = begin / cpu::kAttentionSegment; segment * cpu::kAttentionSegment < end; ++segment) {
    State state(head_dim);
    for (int64_t start = segment * cpu::kAttentionSegment; start < (segment + 1) * cpu::kAttentionSegment;
         start += cpu::kAttentionRange) {
      const int64_t first = std::max(begin, start), last = std::min(end, start + cpu::kAttentionRange);
      if (first < last) state.Merge(Range(query, keys, values, start, first, last, scale));
    }
    merged.Merge(state);
  }
  for (float& sum : merged.sums) sum /= merged.total;
  return merged.sums;
}

}  // namespace baton::reference
