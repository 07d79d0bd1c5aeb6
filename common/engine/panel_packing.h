#pragma once

// From a file's rows to panels.
//
// What a matrix becomes: f32, f16 and bf16 stay; q8_0, q4_0 and q4_1 stay, code for code; q4_k becomes q4_1 (int4 with
// a minimum; its scales and minimums rounded to f16); q5_k and q6_k become q8_0 (int8, every value rounded to the
// nearest of 255 steps that span its group of 32). Parts of one matrix in several quantised formats: the widest of what
// they become, where q4_0 is exact in both others. Of equal dtype or not, what is not quantised in the file and shall
// be, is rounded as kernels/panel_matrix.h says.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/base/dtype.h"
#include "common/engine/cpu_weights.h"
#include "common/model/tensor_view.h"
#include "kernels/panel_matrix.h"

namespace baton {

// Tensors of equal `cols`, one below the other.
using MatrixParts = std::vector<const model::TensorView*>;

// The format of the panels of `parts`. `per_token`: the embedding or the head, which suffer most from 4 bits.
DType PanelDType(WeightsFormat format, const MatrixParts& parts, bool per_token);

// Memory for a panel on its way; one per thread, grows with the first panels.
struct PanelScratch {
  std::vector<std::byte> bytes;
  std::vector<float> rows;
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scales, minimums;
};

// Packs outputs [16 * panel, 16 * panel + 16). DATA_LOSS when the file has become shorter.
absl::Status PackPanel(const MatrixParts& parts, const cpu::PanelMatrix& matrix, int64_t panel, PanelScratch& scratch);

}  // namespace baton
