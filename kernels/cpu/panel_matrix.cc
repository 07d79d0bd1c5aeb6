#include "kernels/panel_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

namespace baton::cpu {
namespace {

constexpr int64_t kStepBytes = kPanelWidth * 4;  // a cache line of codes: 16 outputs of one step
constexpr int64_t kSteps = kGroupInputs / 4;     // of four inputs

// Calls body(T*, to, from): the stored type and its conversions from and to f32.
template <typename Body>
void WithFormat(const PanelMatrix& matrix, const Body& body) {
  switch (matrix.dtype) {
    case DType::kF16:
      return body(reinterpret_cast<uint16_t*>(matrix.data), F16FromF32, F32FromF16);
    case DType::kBF16:
      return body(reinterpret_cast<uint16_t*>(matrix.data), BF16FromF32, F32FromBF16);
    default:
      return body(
          reinterpret_cast<float*>(matrix.data), [](float value) { return value; }, [](float value) { return value; });
  }
}

// Stores value(index into the rows' elements) panel by panel and input by input, so that stores run through memory in
// order.
template <typename T, typename Value>
void PackLanes(const PanelMatrix& matrix, T* data, int64_t first, int64_t count, const Value& value) {
  const int64_t inputs = matrix.inputs, end = first + count;
  const int64_t padded_end = end == matrix.outputs ? PaddedToPanel(end) : end;
  for (int64_t panel_first = first / kPanelWidth * kPanelWidth; panel_first < padded_end; panel_first += kPanelWidth) {
    T* panel = data + panel_first * inputs;
    if (first <= panel_first && panel_first + kPanelWidth <= end) {  // a whole panel
      const int64_t row = (panel_first - first) * inputs;
      for (int64_t k = 0; k < inputs; ++k) {
        for (int64_t lane = 0; lane < kPanelWidth; ++lane)
          panel[k * kPanelWidth + lane] = value(row + lane * inputs + k);
      }
      continue;
    }
    const int64_t lane_begin = std::max(first - panel_first, int64_t{0});
    const int64_t lane_end = std::min(padded_end - panel_first, kPanelWidth);
    for (int64_t k = 0; k < inputs; ++k) {
      for (int64_t lane = lane_begin; lane < lane_end; ++lane) {
        const int64_t output = panel_first + lane;
        panel[k * kPanelWidth + lane] = output < end ? value((output - first) * inputs + k) : T{0};
      }
    }
  }
}

int64_t CodeBytesOfGroup(DType dtype) { return kGroupInputs * kPanelWidth / (dtype == DType::kQ8_0 ? 1 : 2); }

// To the nearest whole number, halves to even, for |value| < 2^22.
float Nearest(float value) { return (value + 12582912.0f) - 12582912.0f; }

// What is no number becomes 0.
uint8_t Code(float value, float highest) {
  return value > 0.0f ? static_cast<uint8_t>(std::min(Nearest(value), highest)) : uint8_t{0};
}

// One group of `count` inputs to codes of a whole group, with the scale as it is stored.
void EncodeGroup(DType dtype, const float* x, int64_t count, uint8_t* codes, uint16_t* scale, uint16_t* minimum) {
  float low = 0.0f, high = 0.0f;  // zero is always within: missing inputs have it
  for (int64_t i = 0; i < count; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  constexpr float kLargestF16 = 65504.0f;
  float offset = 0.0f, start = 0.0f, highest = 0.0f, step = 0.0f;
  if (dtype == DType::kQ8_0) {
    step = std::max(high, -low) / 127.0f;
    start = 128.0f;
    highest = 255.0f;
  } else if (dtype == DType::kQ4_0) {  // the larger side gets the code that the other side has not
    step = high > -low ? high / -8.0f : low / -8.0f;
    start = 8.0f;
    highest = 15.0f;
  } else {
    *minimum = F16FromF32(std::max(low, -kLargestF16));
    offset = F32FromF16(*minimum);
    step = (high - offset) / 15.0f;
    highest = 15.0f;
  }
  *scale = F16FromF32(std::clamp(step, -kLargestF16, kLargestF16));
  const float rounded = F32FromF16(*scale);
  const float inverse = rounded == 0.0f ? 0.0f : 1.0f / rounded;
  for (int64_t i = 0; i < kGroupInputs; ++i) {
    codes[i] = Code((i < count ? x[i] - offset : 0.0f) * inverse + start, highest);
  }
}

uint32_t Load32(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// The codes of a group of all 16 outputs of a panel.
template <int64_t kStepSize>
void PackWholeGroup(const uint8_t* codes, int64_t row_codes, uint8_t* group) {
  for (int64_t step = 0; step < kSteps; step += kStepSize) {
    uint32_t words[kPanelWidth];
    for (int64_t lane = 0; lane < kPanelWidth; ++lane) {
      const uint8_t* from = codes + lane * row_codes + step * 4;
      words[lane] = kStepSize == 1 ? Load32(from) : Load32(from) | Load32(from + 4) << 4;
    }
    std::memcpy(group + step / kStepSize * kStepBytes, words, sizeof(words));
  }
}

}  // namespace

int64_t PanelMatrix::scales_offset() const { return groups() * CodeBytesOfGroup(dtype); }

int64_t PanelMatrix::panel_bytes() const {
  if (!IsQuantized(dtype)) return static_cast<int64_t>(BytesOf(dtype, static_cast<uint64_t>(kPanelWidth * inputs)));
  const int64_t end = minimums_offset() + (dtype == DType::kQ4_1 ? groups() * kPanelWidth * 2 : 0);
  return (end + 63) / 64 * 64;
}

void PackCodedRows(const PanelMatrix& matrix, int64_t first, int64_t count, const CodedRows& rows) {
  const int64_t groups = matrix.groups(), row_codes = groups * kGroupInputs;
  const int64_t end = first + count, padded_end = end == matrix.outputs ? PaddedToPanel(end) : end;
  for (int64_t panel_first = first / kPanelWidth * kPanelWidth; panel_first < padded_end; panel_first += kPanelWidth) {
    auto* panel = reinterpret_cast<uint8_t*>(matrix.data) + panel_first / kPanelWidth * matrix.panel_bytes();
    auto* scales = reinterpret_cast<uint16_t*>(panel + matrix.scales_offset());
    auto* minimums = reinterpret_cast<uint16_t*>(panel + matrix.minimums_offset());
    const int64_t begin_lane = std::max(first - panel_first, int64_t{0});
    const int64_t end_lane = std::min(end - panel_first, kPanelWidth);
    const int64_t padded_lane = std::min(padded_end - panel_first, kPanelWidth);
    for (int64_t g = 0; g < groups; ++g) {
      uint8_t* group = panel + g * CodeBytesOfGroup(matrix.dtype);
      for (int64_t lane = begin_lane; lane < padded_lane; ++lane) {
        const int64_t row = panel_first + lane - first;
        const bool exists = lane < end_lane;
        scales[g * kPanelWidth + lane] = exists ? rows.scales[row * groups + g] : uint16_t{0};
        if (matrix.dtype == DType::kQ4_1) {
          minimums[g * kPanelWidth + lane] = exists ? rows.minimums[row * groups + g] : uint16_t{0};
        }
      }
      // Step by step, so that stores run through memory in order.
      const uint8_t* from = rows.codes + (panel_first - first) * row_codes + g * kGroupInputs;
      const int64_t step_size = matrix.dtype == DType::kQ8_0 ? 1 : 2;
      if (begin_lane == 0 && end_lane == kPanelWidth) {
        step_size == 1 ? PackWholeGroup<1>(from, row_codes, group) : PackWholeGroup<2>(from, row_codes, group);
        continue;
      }
      for (int64_t step = 0; step < kSteps; step += step_size) {
        uint8_t* line = group + step / step_size * kStepBytes;
        for (int64_t lane = begin_lane; lane < padded_lane; ++lane) {
          uint32_t word = 0;
          if (lane < end_lane) {
            const uint8_t* codes = from + lane * row_codes + step * 4;
            word = step_size == 1 ? Load32(codes) : Load32(codes) | Load32(codes + 4) << 4;
          }
          std::memcpy(line + lane * 4, &word, sizeof(word));
        }
      }
    }
  }
}

void PackRows(const PanelMatrix& matrix, int64_t first, int64_t count, const float* rows) {
  if (IsQuantized(matrix.dtype)) {
    const int64_t groups = matrix.groups();
    std::vector<uint8_t> codes(static_cast<size_t>(count * groups * kGroupInputs));
    std::vector<uint16_t> scales(static_cast<size_t>(count * groups)), minimums(scales.size());
    for (int64_t i = 0; i < count * groups; ++i) {
      const int64_t input = i % groups * kGroupInputs;
      EncodeGroup(matrix.dtype, rows + i / groups * matrix.inputs + input,
                  std::min(kGroupInputs, matrix.inputs - input), codes.data() + i * kGroupInputs, &scales[i],
                  &minimums[i]);
    }
    return PackCodedRows(matrix, first, count, {codes.data(), scales.data(), minimums.data()});
  }
  WithFormat(matrix, [&](auto* data, auto to, auto) {
    PackLanes(matrix, data, first, count, [&](int64_t index) { return to(rows[index]); });
  });
}

void PackStoredRows(const PanelMatrix& matrix, int64_t first, int64_t count, const std::byte* rows) {
  WithFormat(matrix, [&](auto* data, auto, auto) {
    using T = std::remove_pointer_t<decltype(data)>;
    PackLanes(matrix, data, first, count, [&](int64_t index) {
      T value;
      std::memcpy(&value, rows + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
      return value;
    });
  });
}

void UnpackRow(const PanelMatrix& matrix, int64_t output, float* row) {
  if (IsQuantized(matrix.dtype)) {
    const auto* panel = reinterpret_cast<const uint8_t*>(matrix.data) + output / kPanelWidth * matrix.panel_bytes();
    const int64_t lane = output % kPanelWidth;
    const auto* scales = reinterpret_cast<const uint16_t*>(panel + matrix.scales_offset()) + lane;
    const auto* minimums = reinterpret_cast<const uint16_t*>(panel + matrix.minimums_offset()) + lane;
    const bool bytes = matrix.dtype == DType::kQ8_0;
    const int offset = bytes ? 128 : matrix.dtype == DType::kQ4_0 ? 8 : 0;
    for (int64_t k = 0; k < matrix.inputs; ++k) {
      const int64_t group = k / kGroupInputs, step = k / 4;
      const uint8_t code = panel[(bytes ? step : step / 2) * kStepBytes + lane * 4 + k % 4];
      const int value = (bytes ? code : step % 2 == 0 ? code & 15 : code >> 4) - offset;
      row[k] = F32FromF16(scales[group * kPanelWidth]) * static_cast<float>(value);
      if (matrix.dtype == DType::kQ4_1) row[k] += F32FromF16(minimums[group * kPanelWidth]);
    }
    return;
  }
  WithFormat(matrix, [&](const auto* data, auto, auto from) {
    const auto* lane = data + output / kPanelWidth * kPanelWidth * matrix.inputs + output % kPanelWidth;
    for (int64_t k = 0; k < matrix.inputs; ++k) row[k] = from(lane[k * kPanelWidth]);
  });
}

}  // namespace baton::cpu
