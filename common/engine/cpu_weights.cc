#include "common/engine/cpu_weights.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/panel_packing.h"

namespace baton {
namespace {

using model::TensorView;

// Packs one matrix after the other, each with all threads, so that progress is even and memory is touched in parallel.
class Packer {
 public:
  Packer(WeightsFormat format, int threads, uint64_t total, const PackProgress& progress, CpuWeights& out)
      : format_(format), pool_(threads), total_(total), progress_(progress), out_(out) {}

  // The rows of all `parts` one below the other. `per_token`: the embedding or the head.
  absl::StatusOr<cpu::PanelMatrix> Matrix(const MatrixParts& parts, bool per_token = false) {
    cpu::PanelMatrix matrix;
    matrix.dtype = PanelDType(format_, parts, per_token);
    matrix.inputs = static_cast<int64_t>(parts[0]->cols);
    for (const TensorView* part : parts) matrix.outputs += static_cast<int64_t>(part->rows);
    out_.memory.emplace_back(matrix.bytes());
    matrix.data = out_.memory.back().data();
    out_.matrix_bytes += matrix.bytes();
    std::vector<PanelScratch> scratch(static_cast<size_t>(pool_.threads()));
    absl::Mutex mutex;
    absl::Status status;
    pool_.Run(matrix.panels(), [&](int64_t panel, int worker) {
      if (absl::Status packed = PackPanel(parts, matrix, panel, scratch[worker]); !packed.ok()) {
        absl::MutexLock lock(&mutex);
        status.Update(packed);
      }
    });
    BATON_RETURN_IF_ERROR(status);
    for (const TensorView* part : parts) Advance(part->data.size());
    return matrix;
  }

  // Norms and biases one behind the other as f32, padded with zeros to a whole panel.
  absl::StatusOr<const float*> Vector(const std::vector<const TensorView*>& parts) {
    int64_t elements = 0;
    for (const TensorView* part : parts) elements += static_cast<int64_t>(part->parameters());
    out_.memory.push_back(ZeroedFloats(static_cast<uint64_t>(cpu::PaddedToPanel(elements))));
    float* values = out_.memory.back().floats();
    float* next = values;
    for (const TensorView* part : parts) {
      BATON_RETURN_IF_ERROR(ReadRows(*part, 0, part->rows, next));
      next += part->parameters();
      Advance(part->data.size());
    }
    return values;
  }

  absl::Status OptionalVector(const std::vector<const std::optional<TensorView>*>& parts, const float*& out) {
    std::vector<const TensorView*> present;
    for (const std::optional<TensorView>* part : parts) {
      if (part->has_value()) present.push_back(&**part);
    }
    if (present.empty()) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(out, Vector(present));
    return absl::OkStatus();
  }

 private:
  void Advance(uint64_t bytes) {
    done_ += bytes;
    if (progress_) progress_(done_, total_);
  }

  const WeightsFormat format_;
  ThreadPool pool_;
  const uint64_t total_;
  uint64_t done_ = 0;
  const PackProgress& progress_;
  CpuWeights& out_;
};

// All views of a layer, in the order in which they are packed.
std::vector<const TensorView*> TensorsOf(const model::LayerWeights& layer) {
  std::vector<const TensorView*> tensors = {&layer.attention_norm, &layer.q,    &layer.k,  &layer.v,   &layer.o,
                                            &layer.ffn_norm,       &layer.gate, &layer.up, &layer.down};
  for (const std::optional<TensorView>* optional :
       {&layer.q_bias, &layer.k_bias, &layer.v_bias, &layer.o_bias, &layer.q_norm, &layer.k_norm}) {
    if (optional->has_value()) tensors.push_back(&**optional);
  }
  return tensors;
}

uint64_t TotalBytes(const model::Model& model) {
  uint64_t total = model.embedding.data.size() + model.final_norm.data.size();
  if (!model.config.tied_head) total += model.lm_head.data.size();
  for (const model::LayerWeights& layer : model.layers) {
    for (const TensorView* tensor : TensorsOf(layer)) total += tensor->data.size();
  }
  return total;
}

absl::Status PackLayer(const model::LayerWeights& from, Packer& packer, CpuLayerWeights& to) {
  BATON_ASSIGN_OR_RETURN(to.attention_norm, packer.Vector({&from.attention_norm}));
  BATON_ASSIGN_OR_RETURN(to.qkv, packer.Matrix({&from.q, &from.k, &from.v}));
  BATON_RETURN_IF_ERROR(packer.OptionalVector({&from.q_bias, &from.k_bias, &from.v_bias}, to.qkv_bias));
  BATON_RETURN_IF_ERROR(packer.OptionalVector({&from.q_norm}, to.q_norm));
  BATON_RETURN_IF_ERROR(packer.OptionalVector({&from.k_norm}, to.k_norm));
  BATON_ASSIGN_OR_RETURN(to.o, packer.Matrix({&from.o}));
  BATON_RETURN_IF_ERROR(packer.OptionalVector({&from.o_bias}, to.o_bias));
  BATON_ASSIGN_OR_RETURN(to.ffn_norm, packer.Vector({&from.ffn_norm}));
  BATON_ASSIGN_OR_RETURN(to.gate_up, packer.Matrix({&from.gate, &from.up}));
  BATON_ASSIGN_OR_RETURN(to.down, packer.Matrix({&from.down}));
  return absl::OkStatus();
}

absl::Status Pack(const model::Model& model, WeightsFormat format, int threads, const PackProgress& progress,
                  CpuWeights& out) {
  out.config = model.config;
  out.rope = model.rope;
  out.identity = HashText(WeightsFormatName(format), HashText(model.weights_format, model.weights_identity));
  out.layers.resize(model.layers.size());
  Packer packer(format, threads, TotalBytes(model), progress, out);
  BATON_ASSIGN_OR_RETURN(out.embedding, packer.Matrix({&model.embedding}, true));
  for (size_t i = 0; i < model.layers.size(); ++i) {
    BATON_RETURN_IF_ERROR(PackLayer(model.layers[i], packer, out.layers[i]));
  }
  BATON_ASSIGN_OR_RETURN(out.final_norm, packer.Vector({&model.final_norm}));
  out.lm_head = out.embedding;
  if (!model.config.tied_head) {
    BATON_ASSIGN_OR_RETURN(out.lm_head, packer.Matrix({&model.lm_head}, true));
  }
  return model.CheckFilesUnchanged();
}

}  // namespace

std::string_view WeightsFormatName(WeightsFormat format) {
  switch (format) {
    case WeightsFormat::kAuto:
      return "auto";
    case WeightsFormat::kF32:
      return "f32";
    case WeightsFormat::kBF16:
      return "bf16";
    case WeightsFormat::kF16:
      return "f16";
    case WeightsFormat::kInt8:
      return "int8";
    case WeightsFormat::kInt4:
      return "int4";
  }
  return "unknown";
}

absl::StatusOr<std::shared_ptr<const CpuWeights>> PackCpuWeights(const model::Model& model, WeightsFormat format,
                                                                 int threads, const PackProgress& progress) {
  auto weights = std::make_shared<CpuWeights>();
  try {
    BATON_RETURN_IF_ERROR(Pack(model, format, threads, progress, *weights));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("no memory for the packed weights: %d of %d bytes of the file were packed",
                             weights->matrix_bytes, TotalBytes(model));
  }
  return std::shared_ptr<const CpuWeights>(std::move(weights));
}

}  // namespace baton
