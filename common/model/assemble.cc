#include "common/model/assemble.h"

#include <array>
#include <set>
#include <utility>

#include "common/base/status.h"

namespace baton::model {
namespace {

using weights::Quoted;
using weights::ShapeText;
using weights::Tensor;

// Hands out tensors by name, each once, and knows which were never asked for.
class TensorTaker {
 public:
  explicit TensorTaker(const weights::TensorMap& tensors) : tensors_(tensors) {}

  absl::StatusOr<TensorView> Matrix(const std::string& name, uint64_t rows, uint64_t cols) {
    return Take(name, {rows, cols});
  }

  // Norms and biases: they are copied whole everywhere, so quantised ones are not expected.
  absl::StatusOr<TensorView> Vector(const std::string& name, uint64_t size) {
    BATON_ASSIGN_OR_RETURN(TensorView view, Take(name, {size}));
    if (BlockOf(view.dtype).elements > 1) {
      return Unimplemented("%stensor %s is a vector in the format %s", FileOf(name), Quoted(name),
                           DTypeName(view.dtype));
    }
    return view;
  }

  // Present but not needed.
  void Ignore(const std::string& name) { taken_.insert(name); }

  absl::Status CheckAllTaken() const {
    for (const auto& [name, tensor] : tensors_) {
      if (!taken_.contains(name)) {
        return InvalidArgument("%stensor %s %s does not belong to the model that the config describes", FileOf(name),
                               Quoted(name), ShapeText(tensor.shape));
      }
    }
    return absl::OkStatus();
  }

 private:
  std::string FileOf(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found != tensors_.end() && found->second.file ? found->second.file->path() + ": " : "";
  }

  absl::StatusOr<TensorView> Take(const std::string& name, const std::vector<uint64_t>& shape) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      const std::string file = tensors_.empty() ? "" : FileOf(tensors_.begin()->first);
      return NotFound("%stensor %s %s is missing", file, Quoted(name), ShapeText(shape));
    }
    BATON_CHECK(taken_.insert(name).second);
    const Tensor& tensor = found->second;
    if (tensor.shape != shape) {
      return InvalidArgument("%stensor %s has the shape %s, the config needs %s", FileOf(name), Quoted(name),
                             ShapeText(tensor.shape), ShapeText(shape));
    }
    if (!tensor.dtype) {
      return Unimplemented("%stensor %s has the format %s; F32, F16 and BF16 are supported", FileOf(name), Quoted(name),
                           tensor.dtype_name);
    }
    return TensorView{.name = name,
                      .dtype = *tensor.dtype,
                      .rows = shape.size() == 1 ? 1 : shape[0],
                      .cols = shape.back(),
                      .data = tensor.data,
                      .file = tensor.file,
                      .file_offset = tensor.file_offset};
  }

  const weights::TensorMap& tensors_;
  std::set<std::string> taken_;
};

// A bias whose elements are interleaved like rows: copied in rotate-half order, so that readers see one row as always.
absl::Status Deinterleave(uint32_t heads, Model* model, TensorView* bias) {
  TensorView column = *bias;
  column.rows = bias->cols;
  column.cols = 1;
  column.interleaved_heads = heads;
  auto copy = std::make_shared<std::vector<std::byte>>(bias->data.size());
  BATON_RETURN_IF_ERROR(ReadRowBytes(column, 0, column.rows, copy->data()));
  bias->data = *copy;
  bias->file = nullptr;
  bias->file_offset = 0;
  model->memory.push_back(std::move(copy));
  return absl::OkStatus();
}

absl::StatusOr<LayerWeights> TakeLayer(uint32_t index, const Architecture& architecture, TensorTaker& take,
                                       Model* model) {
  const ModelConfig& config = model->config;
  const TensorNames& names = NamesOf(architecture.format);
  const auto matrix = [&](std::string_view name, uint64_t rows, uint64_t cols) {
    return take.Matrix(names.Layer(index, name), rows, cols);
  };
  const auto vector = [&](std::string_view name, uint64_t size) { return take.Vector(names.Layer(index, name), size); };
  LayerWeights layer;
  BATON_ASSIGN_OR_RETURN(layer.attention_norm, vector(names.attention_norm, config.hidden));
  BATON_ASSIGN_OR_RETURN(layer.q, matrix(names.q, config.q_rows(), config.hidden));
  BATON_ASSIGN_OR_RETURN(layer.k, matrix(names.k, config.kv_rows(), config.hidden));
  BATON_ASSIGN_OR_RETURN(layer.v, matrix(names.v, config.kv_rows(), config.hidden));
  BATON_ASSIGN_OR_RETURN(layer.o, matrix(names.o, config.hidden, config.q_rows()));
  if (config.qkv_bias) {
    BATON_ASSIGN_OR_RETURN(layer.q_bias, vector(names.q_bias, config.q_rows()));
    BATON_ASSIGN_OR_RETURN(layer.k_bias, vector(names.k_bias, config.kv_rows()));
    BATON_ASSIGN_OR_RETURN(layer.v_bias, vector(names.v_bias, config.kv_rows()));
  }
  if (config.o_bias) {
    BATON_ASSIGN_OR_RETURN(layer.o_bias, vector(names.o_bias, config.hidden));
  }
  if (config.qk_norm) {
    BATON_ASSIGN_OR_RETURN(layer.q_norm, vector(names.q_norm, config.head_dim));
    BATON_ASSIGN_OR_RETURN(layer.k_norm, vector(names.k_norm, config.head_dim));
  }
  BATON_ASSIGN_OR_RETURN(layer.ffn_norm, vector(names.ffn_norm, config.hidden));
  BATON_ASSIGN_OR_RETURN(layer.gate, matrix(names.gate, config.intermediate, config.hidden));
  BATON_ASSIGN_OR_RETURN(layer.up, matrix(names.up, config.intermediate, config.hidden));
  BATON_ASSIGN_OR_RETURN(layer.down, matrix(names.down, config.hidden, config.intermediate));
  if (architecture.interleaved_rope) {
    layer.q.interleaved_heads = config.heads;
    layer.k.interleaved_heads = config.kv_heads;
    if (layer.q_bias) {
      BATON_RETURN_IF_ERROR(Deinterleave(config.heads, model, &*layer.q_bias));
      BATON_RETURN_IF_ERROR(Deinterleave(config.kv_heads, model, &*layer.k_bias));
    }
  }
  return layer;
}

// llama3 scaling in a GGUF file: one divisor of the frequency for each pair.
absl::Status TakeRopeDivisors(const TensorNames& names, const weights::TensorMap& tensors, TensorTaker& take,
                              ModelConfig* config) {
  if (names.rope_divisors.empty() || !tensors.contains(names.rope_divisors)) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const TensorView view, take.Vector(std::string(names.rope_divisors), config->head_dim / 2));
  std::vector<float>& divisors = config->rope.frequency_divisors;
  divisors.resize(view.cols);
  BATON_RETURN_IF_ERROR(ReadRows(view, 0, 1, divisors.data()));
  for (const float divisor : divisors) {
    if (!(divisor > 0 && divisor < 1e6f)) return InvalidArgument("tensor %s holds %g", Quoted(view.name), divisor);
  }
  return absl::OkStatus();
}

DType CommonestDType(const weights::TensorMap& tensors) {
  std::array<uint64_t, 16> bytes = {};
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype) bytes[static_cast<size_t>(*tensor.dtype)] += tensor.data.size();
  }
  size_t commonest = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > bytes[commonest]) commonest = i;
  }
  return static_cast<DType>(commonest);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Model>> AssembleModel(ParsedConfig parsed, const weights::TensorMap& tensors,
                                                     const LoadProgress& progress) {
  auto model = std::make_shared<Model>();
  const Architecture& architecture = parsed.architecture;
  const TensorNames& names = NamesOf(architecture.format);
  model->config = std::move(parsed.config);
  model->weights_format = architecture.format == FileFormat::kGguf ? "gguf" : "safetensors";
  ModelConfig& config = model->config;
  config.dtype = CommonestDType(tensors);

  TensorTaker take(tensors);
  const std::string embedding(names.embedding), lm_head(names.lm_head);
  BATON_ASSIGN_OR_RETURN(model->embedding, take.Matrix(embedding, config.vocab, config.hidden));
  BATON_ASSIGN_OR_RETURN(model->final_norm, take.Vector(std::string(names.final_norm), config.hidden));
  if (config.tied_head) {
    take.Ignore(lm_head);  // some writers repeat it; transformers overwrites it with the embedding
    model->lm_head = model->embedding;
  } else {
    BATON_ASSIGN_OR_RETURN(model->lm_head, take.Matrix(lm_head, config.vocab, config.hidden));
  }
  BATON_RETURN_IF_ERROR(TakeRopeDivisors(names, tensors, take, &config));
  for (uint32_t i = 0; i < config.layers; ++i) {
    BATON_ASSIGN_OR_RETURN(LayerWeights layer, TakeLayer(i, architecture, take, model.get()));
    model->layers.push_back(std::move(layer));
  }
  for (const auto& [name, tensor] : tensors) {
    if (name.ends_with(names.precomputed_rope)) take.Ignore(name);
  }
  BATON_RETURN_IF_ERROR(take.CheckAllTaken());

  model->rope = MakeRopeTable(config.rope, config.head_dim);
  std::set<std::shared_ptr<const weights::MappedFile>> files;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.file) files.insert(tensor.file);
  }
  model->files.assign(files.begin(), files.end());
  BATON_ASSIGN_OR_RETURN(model->weights_identity, WeightsIdentity(config, tensors, progress));
  return model;
}

}  // namespace baton::model
