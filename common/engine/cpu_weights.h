#pragma once

// A model's weights as the CPU runner computes with them: packed once at load into private memory.

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/hash.h"
#include "common/model/model.h"
#include "kernels/aligned_buffer.h"
#include "kernels/panel_matrix.h"

namespace baton {

// How matrices are stored. kAuto keeps what the file has: f32, f16, bf16, and quantised matrices quantised, never wider
// (panel_packing.h has the table). kInt8 and kInt4 also quantise what is not; kInt4 keeps the embedding and the head at
// 8 bits unless the file has fewer. Sums are exact integers within groups of 32 inputs of quantised matrices, f32
// otherwise.
enum class WeightsFormat : uint8_t { kAuto, kF32, kBF16, kF16, kInt8, kInt4 };
inline constexpr WeightsFormat kWeightsFormats[] = {WeightsFormat::kAuto, WeightsFormat::kF32,  WeightsFormat::kBF16,
                                                    WeightsFormat::kF16,  WeightsFormat::kInt8, WeightsFormat::kInt4};
std::string_view WeightsFormatName(WeightsFormat format);

struct CpuLayerWeights {
  cpu::PanelMatrix qkv;                   // [(heads + 2 * kv_heads) * head_dim, hidden]
  cpu::PanelMatrix o;                     // [hidden, heads * head_dim]
  cpu::PanelMatrix gate_up;               // [2 * intermediate, hidden]
  cpu::PanelMatrix down;                  // [hidden, intermediate]
  const float* qkv_bias = nullptr;        // [qkv.outputs, padded to a panel] or null
  const float* o_bias = nullptr;          // [o.outputs, padded to a panel] or null
  const float* attention_norm = nullptr;  // [hidden]
  const float* ffn_norm = nullptr;        // [hidden]
  const float* q_norm = nullptr;          // [head_dim] or null
  const float* k_norm = nullptr;          // [head_dim] or null
};

// Immutable; may be shared by several runners. Holds nothing of the Model it came from.
struct CpuWeights {
  model::ModelConfig config;
  model::RopeTable rope;
  cpu::PanelMatrix embedding;  // [vocab, hidden]
  cpu::PanelMatrix lm_head;    // [vocab, hidden]; the embedding's view when tied
  const float* final_norm = nullptr;
  std::vector<CpuLayerWeights> layers;
  Hash128 identity;           // of the model's weights and the formats they are packed in
  uint64_t matrix_bytes = 0;  // one copy of every matrix

  std::vector<AlignedBuffer> memory;  // what the views above point into
};

// Bytes packed so far and in total; from the calling thread.
using PackProgress = std::function<void(uint64_t done, uint64_t total)>;

// Reads every weight of `model` once, `threads` at a time (0: one per core). DATA_LOSS when a file became shorter or
// was changed meanwhile, RESOURCE_EXHAUSTED when the memory is not there.
absl::StatusOr<std::shared_ptr<const CpuWeights>> PackCpuWeights(const model::Model& model, WeightsFormat format,
                                                                 int threads, const PackProgress& progress = nullptr);

}  // namespace baton
