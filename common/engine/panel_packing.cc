#include "common/engine/panel_packing.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/weights/code_groups.h"
#include "common/weights/dequantize.h"

namespace baton {
namespace {

using model::TensorView;

// What a tensor of this format becomes when it is kept.
DType KeptAs(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
      return dtype;
    case DType::kQ4_K:
      return DType::kQ4_1;
    case DType::kQ5_K:
    case DType::kQ6_K:
      return DType::kQ8_0;
    case DType::kI8:
      break;
  }
  return DType::kF32;
}

// One format for both: q4_0 is exact in q4_1 and q8_0; whatever is not quantised meets others in f32.
DType Joined(DType a, DType b) {
  if (a == b) return a;
  if (!cpu::IsQuantized(a) || !cpu::IsQuantized(b)) return DType::kF32;
  return a == DType::kQ8_0 || b == DType::kQ8_0 ? DType::kQ8_0 : DType::kQ4_1;
}

// Codes of `from` as those of `to`, without rounding; false when that cannot be.
bool HasExactCodes(DType from, DType to) {
  if (!weights::HasCodeGroups(from)) return false;
  return KeptAs(from) == to || from == DType::kQ4_0;
}

void ConvertCodes(DType from, DType to, uint64_t codes, uint64_t groups, PanelScratch& scratch) {
  if (from != DType::kQ4_0 || to == DType::kQ4_0) return;
  if (to == DType::kQ8_0) {
    for (uint64_t i = 0; i < codes; ++i) scratch.codes[i] = static_cast<uint8_t>(scratch.codes[i] + 120);
    return;
  }
  for (uint64_t i = 0; i < groups; ++i) scratch.minimums[i] = F16FromF32(-8.0f * F32FromF16(scratch.scales[i]));
}

// Rows [first, first + count) of one tensor to outputs [output, output + count).
absl::Status PackRowsOf(const TensorView& tensor, uint64_t first, uint64_t count, const cpu::PanelMatrix& matrix,
                        int64_t output, PanelScratch& scratch) {
  const uint64_t elements = count * tensor.cols;
  scratch.bytes.resize(std::max<size_t>(scratch.bytes.size(), count * tensor.row_bytes()));
  BATON_RETURN_IF_ERROR(model::ReadRowBytes(tensor, first, count, scratch.bytes.data()));
  if (cpu::IsQuantized(matrix.dtype) && HasExactCodes(tensor.dtype, matrix.dtype)) {
    const uint64_t groups = elements / weights::kCodeGroup;
    scratch.codes.resize(std::max<size_t>(scratch.codes.size(), elements));
    scratch.scales.resize(std::max<size_t>(scratch.scales.size(), groups));
    scratch.minimums.resize(scratch.scales.size());
    weights::UnpackCodes(tensor.dtype, scratch.bytes.data(), elements,
                         {scratch.codes.data(), scratch.scales.data(), scratch.minimums.data()});
    ConvertCodes(tensor.dtype, matrix.dtype, elements, groups, scratch);
    cpu::PackCodedRows(matrix, output, static_cast<int64_t>(count),
                       {scratch.codes.data(), scratch.scales.data(), scratch.minimums.data()});
    return absl::OkStatus();
  }
  if (tensor.dtype == matrix.dtype) {
    cpu::PackStoredRows(matrix, output, static_cast<int64_t>(count), scratch.bytes.data());
    return absl::OkStatus();
  }
  scratch.rows.resize(std::max<size_t>(scratch.rows.size(), elements));
  weights::Dequantize(tensor.dtype, scratch.bytes.data(), elements, scratch.rows.data());
  cpu::PackRows(matrix, output, static_cast<int64_t>(count), scratch.rows.data());
  return absl::OkStatus();
}

}  // namespace

DType PanelDType(WeightsFormat format, const MatrixParts& parts, bool per_token) {
  DType kept = KeptAs(parts[0]->dtype);
  for (const TensorView* part : parts) kept = Joined(kept, KeptAs(part->dtype));
  switch (format) {
    case WeightsFormat::kF32:
      return DType::kF32;
    case WeightsFormat::kBF16:
      return DType::kBF16;
    case WeightsFormat::kF16:
      return DType::kF16;
    case WeightsFormat::kInt8:
      return DType::kQ8_0;
    case WeightsFormat::kInt4:
      if (kept == DType::kQ4_0 || kept == DType::kQ4_1) return kept;
      return per_token ? DType::kQ8_0 : DType::kQ4_1;
    case WeightsFormat::kAuto:
      break;
  }
  return kept;
}

absl::Status PackPanel(const MatrixParts& parts, const cpu::PanelMatrix& matrix, int64_t panel, PanelScratch& scratch) {
  int64_t output = panel * cpu::kPanelWidth;
  const int64_t end = std::min(output + cpu::kPanelWidth, matrix.outputs);
  int64_t part_first = 0;
  for (const TensorView* part : parts) {
    const int64_t part_end = part_first + static_cast<int64_t>(part->rows);
    const int64_t count = std::min(end, part_end) - output;
    if (count > 0) {
      BATON_RETURN_IF_ERROR(PackRowsOf(*part, static_cast<uint64_t>(output - part_first), static_cast<uint64_t>(count),
                                       matrix, output, scratch));
      output += count;
    }
    part_first = part_end;
  }
  return absl::OkStatus();
}

}  // namespace baton
