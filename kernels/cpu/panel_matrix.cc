#include "kernels/panel_matrix.h"

#include <type_traits>

namespace baton::cpu {
namespace {

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

}  // namespace

void PackRows(const PanelMatrix& matrix, int64_t first, int64_t count, const float* rows) {
  WithFormat(matrix, [&](auto* data, auto to, auto) {
    using T = std::remove_pointer_t<decltype(data)>;
    const int64_t end = first + count;
    const int64_t padded_end = end == matrix.outputs ? PaddedToPanel(end) : end;
    // Panel by panel and input by input, so that stores run through memory in order.
    for (int64_t panel_first = first / kPanelWidth * kPanelWidth; panel_first < padded_end;
         panel_first += kPanelWidth) {
      T* panel = data + panel_first * matrix.inputs;
      const int64_t lane_begin = first > panel_first ? first - panel_first : 0;
      const int64_t lane_end = padded_end - panel_first < kPanelWidth ? padded_end - panel_first : kPanelWidth;
      for (int64_t k = 0; k < matrix.inputs; ++k) {
        for (int64_t lane = lane_begin; lane < lane_end; ++lane) {
          const int64_t output = panel_first + lane;
          panel[k * kPanelWidth + lane] = output < end ? to(rows[(output - first) * matrix.inputs + k]) : T{0};
        }
      }
    }
  });
}

void UnpackRow(const PanelMatrix& matrix, int64_t output, float* row) {
  WithFormat(matrix, [&](const auto* data, auto, auto from) {
    const auto* lane = data + output / kPanelWidth * kPanelWidth * matrix.inputs + output % kPanelWidth;
    for (int64_t k = 0; k < matrix.inputs; ++k) row[k] = from(lane[k * kPanelWidth]);
  });
}

}  // namespace baton::cpu
