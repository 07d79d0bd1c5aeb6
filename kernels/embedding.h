#pragma once

// Embedding lookup.

#include <cstdint>
#include <span>

#include "common/base/ids.h"
#include "kernels/panel_matrix.h"

namespace baton::cpu {

// out[i] = row tokens[i] of `table` [vocab, hidden]; out is [tokens.size(), hidden]. Every token id is below vocab.
inline void Embedding(const PanelMatrix& table, std::span<const TokenId> tokens, float* out) {
  for (size_t i = 0; i < tokens.size(); ++i) UnpackRow(table, tokens[i], out + i * table.inputs);
}

}  // namespace baton::cpu
