#include "common/engine/panel_packing.h"

#include <algorithm>
#include <cmath>
#include <limits>

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
    case DType::kF8:
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

// Whether codes of `from` become those of `to` without a detour through values.
bool ConvertsCodes(DType from, DType to) {
  if (!weights::HasCodeGroups(from)) return false;
  const DType kept = KeptAs(from);
  return kept == to || kept == DType::kQ4_0 || (kept == DType::kQ4_1 && to == DType::kQ8_0);
}

// 16 values low + step * code as 8-bit ones: the step of int8 that is a whole part of `step` and has a multiple nearest
// to `low`, so that but a shared offset, which is small, nothing is rounded. False when there is none: the values then
// lie far from zero for their step.
bool LatticeToInt8(float low, float step, uint8_t* codes, uint16_t* scale) {
  float best_error = std::numeric_limits<float>::infinity(), best_start = 0.0f, best_part = 0.0f;
  for (float part = 1.0f; part <= 16.0f; ++part) {
    const uint16_t rounded = F16FromF32(step / part);
    const float unit = F32FromF16(rounded), start = std::nearbyint(low / unit);
    if (!(std::abs(start) <= 127.0f && std::abs(start + 15.0f * part) <= 127.0f)) continue;
    const float error =
        std::max(std::abs(unit * start - low), std::abs(unit * (start + 15.0f * part) - (low + 15.0f * step)));
    if (error >= best_error) continue;
    best_error = error;
    best_start = start;
    best_part = part;
    *scale = rounded;
  }
  if (best_part == 0.0f) return false;
  for (uint64_t i = 0; i < weights::kCodeGroup; ++i) {
    codes[i] = static_cast<uint8_t>(128.0f + best_start + best_part * static_cast<float>(codes[i]));
  }
  return true;
}

void GroupToInt8(float low, float step, uint8_t* codes, uint16_t* scale) {
  if (LatticeToInt8(low, step, codes, scale)) return;
  *scale = F16FromF32(std::max(std::abs(low), std::abs(low + 15.0f * step)) / 127.0f);
  const float unit = F32FromF16(*scale);
  for (uint64_t i = 0; i < weights::kCodeGroup; ++i) {
    const float value = unit > 0.0f ? std::nearbyint((low + step * static_cast<float>(codes[i])) / unit) : 0.0f;
    codes[i] = static_cast<uint8_t>(128 + static_cast<int>(std::clamp(value, -127.0f, 127.0f)));
  }
}

void ConvertCodes(DType from, DType to, uint64_t codes, uint64_t groups, PanelScratch& scratch) {
  from = KeptAs(from);
  if (from == to) return;
  if (from == DType::kQ4_0 && to == DType::kQ8_0) {
    for (uint64_t i = 0; i < codes; ++i) scratch.codes[i] = static_cast<uint8_t>(scratch.codes[i] + 120);
  } else if (from == DType::kQ4_0) {
    for (uint64_t i = 0; i < groups; ++i) scratch.minimums[i] = F16FromF32(-8.0f * F32FromF16(scratch.scales[i]));
  } else {
    for (uint64_t i = 0; i < groups; ++i) {
      GroupToInt8(F32FromF16(scratch.minimums[i]), F32FromF16(scratch.scales[i]),
                  scratch.codes.data() + i * weights::kCodeGroup, &scratch.scales[i]);
    }
  }
}

// Rows [first, first + count) of one tensor to outputs [output, output + count).
absl::Status PackRowsOf(const TensorView& tensor, uint64_t first, uint64_t count, const cpu::PanelMatrix& matrix,
                        int64_t output, PanelScratch& scratch) {
  const uint64_t elements = count * tensor.cols;
  scratch.bytes.resize(std::max<size_t>(scratch.bytes.size(), count * tensor.row_bytes()));
  BATON_RETURN_IF_ERROR(model::ReadRowBytes(tensor, first, count, scratch.bytes.data()));
  if (ConvertsCodes(tensor.dtype, matrix.dtype)) {
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
