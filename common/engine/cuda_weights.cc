#include "common/engine/cuda_weights.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "kernels/rope.h"

namespace baton {
namespace {

using device::Memory;
using device::MemoryKind;
using model::TensorView;

constexpr uint64_t kStagingBytes = uint64_t{16} << 20;

// Two pinned buffers that are filled in turn while the other one is being copied.
class Uploader {
 public:
  static absl::StatusOr<Uploader> Create(const device::Stream& stream, DType dtype, CudaWeights& weights) {
    Uploader uploader(stream, dtype, weights);
    for (Buffer& buffer : uploader.buffers_) {
      BATON_ASSIGN_OR_RETURN(buffer.memory, Memory::Allocate(MemoryKind::kPinned, kStagingBytes));
      BATON_ASSIGN_OR_RETURN(buffer.copied, device::Event::Create());
    }
    return uploader;
  }

  // The rows of `parts` one below the other, in the weights' format.
  absl::Status Matrix(std::initializer_list<const TensorView*> parts, const void*& out) {
    uint64_t rows = 0;
    for (const TensorView* part : parts) rows += part->rows;
    const uint64_t row_bytes = BytesOf(dtype_, (*parts.begin())->cols);
    BATON_ASSIGN_OR_RETURN(std::byte * to, Reserve(rows * row_bytes));
    weights_.matrix_bytes += rows * row_bytes;
    out = to;
    for (const TensorView* part : parts) {
      const uint64_t at_once = std::max<uint64_t>(1, kStagingBytes / row_bytes);
      if (row_bytes > kStagingBytes) return InvalidArgument("a row of %s has %d bytes", part->name, row_bytes);
      for (uint64_t first = 0, count; first < part->rows; first += count, to += count * row_bytes) {
        count = std::min(at_once, part->rows - first);
        BATON_RETURN_IF_ERROR(
            Send(to, count * row_bytes, [&](std::byte* staging) { return ReadAs(*part, first, count, staging); }));
      }
    }
    return absl::OkStatus();
  }

  // The elements of `parts` one behind the other, as f32; null when the first is not there.
  absl::Status Vector(std::initializer_list<const std::optional<TensorView>*> parts, const float*& out) {
    if (!(*parts.begin())->has_value()) return absl::OkStatus();
    std::vector<float> values;
    for (const auto* part : parts) {
      const size_t before = values.size();
      values.resize(before + (*part)->cols);
      BATON_RETURN_IF_ERROR(ReadRows(**part, 0, 1, values.data() + before));
    }
    return Floats(values, out);
  }
  absl::Status Vector(const TensorView& tensor, const float*& out) {
    const std::optional<TensorView> present = tensor;
    return Vector({&present}, out);
  }

  absl::Status Floats(const std::vector<float>& values, const float*& out) {
    BATON_ASSIGN_OR_RETURN(std::byte * to, Reserve(values.size() * sizeof(float)));
    out = reinterpret_cast<const float*>(to);
    return stream_.Copy(to, values.data(), values.size() * sizeof(float));
  }

 private:
  struct Buffer {
    Memory memory;
    device::Event copied;
  };

  Uploader(const device::Stream& stream, DType dtype, CudaWeights& weights)
      : stream_(stream), dtype_(dtype), weights_(weights) {}

  absl::StatusOr<std::byte*> Reserve(uint64_t bytes) {
    BATON_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(MemoryKind::kDevice, bytes));
    weights_.memory.push_back(std::move(memory));
    return weights_.memory.back().data();
  }

  template <typename Fill>
  absl::Status Send(std::byte* to, uint64_t bytes, const Fill& fill) {
    Buffer& buffer = buffers_[next_];
    next_ ^= 1;
    BATON_RETURN_IF_ERROR(buffer.copied.Wait());
    BATON_RETURN_IF_ERROR(fill(buffer.memory.data()));
    BATON_RETURN_IF_ERROR(stream_.Copy(to, buffer.memory.data(), bytes));
    return stream_.Record(buffer.copied);
  }

  absl::Status ReadAs(const TensorView& tensor, uint64_t first, uint64_t count, std::byte* out) {
    if (tensor.dtype == dtype_) return ReadRowBytes(tensor, first, count, out);
    if (dtype_ == DType::kF32) return ReadRows(tensor, first, count, reinterpret_cast<float*>(out));
    row_.resize(tensor.cols);
    for (uint64_t row = 0; row < count; ++row) {
      BATON_RETURN_IF_ERROR(ReadRows(tensor, first + row, 1, row_.data()));
      auto* to = reinterpret_cast<uint16_t*>(out) + row * tensor.cols;
      for (uint64_t i = 0; i < tensor.cols; ++i)
        to[i] = dtype_ == DType::kF16 ? F16FromF32(row_[i]) : BF16FromF32(row_[i]);
    }
    return absl::OkStatus();
  }

  const device::Stream& stream_;
  const DType dtype_;
  CudaWeights& weights_;
  Buffer buffers_[2];
  int next_ = 0;
  std::vector<float> row_;
};

absl::Status LoadLayer(const model::LayerWeights& from, Uploader& uploader, CudaLayerWeights& to) {
  BATON_RETURN_IF_ERROR(uploader.Vector(from.attention_norm, to.attention_norm));
  BATON_RETURN_IF_ERROR(uploader.Matrix({&from.q, &from.k, &from.v}, to.qkv));
  BATON_RETURN_IF_ERROR(uploader.Vector({&from.q_bias, &from.k_bias, &from.v_bias}, to.qkv_bias));
  BATON_RETURN_IF_ERROR(uploader.Vector({&from.q_norm}, to.q_norm));
  BATON_RETURN_IF_ERROR(uploader.Vector({&from.k_norm}, to.k_norm));
  BATON_RETURN_IF_ERROR(uploader.Matrix({&from.o}, to.o));
  BATON_RETURN_IF_ERROR(uploader.Vector({&from.o_bias}, to.o_bias));
  BATON_RETURN_IF_ERROR(uploader.Vector(from.ffn_norm, to.ffn_norm));
  BATON_RETURN_IF_ERROR(uploader.Matrix({&from.gate, &from.up}, to.gate_up));
  return uploader.Matrix({&from.down}, to.down);
}

absl::Status LoadRope(const model::ModelConfig& config, const model::RopeTable& rope, Uploader& uploader,
                      CudaWeights& to) {
  const uint64_t pairs = config.head_dim / 2;
  std::vector<float> cosine(config.max_length * pairs), sine(config.max_length * pairs);
  for (uint64_t position = 0; position < config.max_length; ++position) {
    cpu::RopeAngles(static_cast<int64_t>(position), rope.inverse_frequencies.data(), static_cast<int64_t>(pairs),
                    rope.attention_scale, cosine.data() + position * pairs, sine.data() + position * pairs);
  }
  BATON_RETURN_IF_ERROR(uploader.Floats(cosine, to.cosine));
  return uploader.Floats(sine, to.sine);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaWeights>> LoadCudaWeights(const model::Model& model, DType dtype,
                                                                   const device::Stream& stream) {
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    return InvalidArgument("the CUDA engine computes with f32, f16 or bf16 weights, not %s", DTypeName(dtype));
  }
  auto weights = std::make_shared<CudaWeights>();
  weights->config = model.config;
  weights->rope = model.rope;
  weights->dtype = dtype;
  weights->identity = HashText(DTypeName(dtype), HashText(model.weights_format, model.weights_identity));
  weights->layers.resize(model.layers.size());
  BATON_ASSIGN_OR_RETURN(Uploader uploader, Uploader::Create(stream, dtype, *weights));
  BATON_RETURN_IF_ERROR(uploader.Matrix({&model.embedding}, weights->embedding));
  for (size_t i = 0; i < model.layers.size(); ++i) {
    BATON_RETURN_IF_ERROR(LoadLayer(model.layers[i], uploader, weights->layers[i]));
  }
  BATON_RETURN_IF_ERROR(uploader.Vector(model.final_norm, weights->final_norm));
  weights->lm_head = weights->embedding;
  if (!model.config.tied_head) BATON_RETURN_IF_ERROR(uploader.Matrix({&model.lm_head}, weights->lm_head));
  BATON_RETURN_IF_ERROR(LoadRope(model.config, model.rope, uploader, *weights));
  BATON_RETURN_IF_ERROR(stream.Synchronize());
  BATON_RETURN_IF_ERROR(model.CheckFilesUnchanged());
  return std::shared_ptr<const CudaWeights>(std::move(weights));
}

}  // namespace baton
