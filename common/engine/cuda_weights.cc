#include "common/engine/cuda_weights.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/device/device.h"
#include "kernels/rope.h"

namespace baton {
namespace {

using device::Memory;
using device::MemoryKind;
using model::TensorView;

constexpr uint64_t kStagingBytes = uint64_t{16} << 20;

// A matrix, or a part of it.
struct Part {
  const TensorView* tensor;
  uint64_t first_row, rows;
  uint64_t first_column, columns;
};

// Rows that a rank has of a matrix whose outputs are shared out evenly, and the same for inputs.
Part RowsOf(const TensorView& tensor, const CudaShard& shard) {
  const uint64_t rows = tensor.rows / shard.ranks;
  return {&tensor, rows * shard.rank, rows, 0, tensor.cols};
}
Part ColumnsOf(const TensorView& tensor, const CudaShard& shard) {
  const uint64_t columns = tensor.cols / shard.ranks;
  return {&tensor, 0, tensor.rows, columns * shard.rank, columns};
}
Part AllOf(const TensorView& tensor) { return {&tensor, 0, tensor.rows, 0, tensor.cols}; }

uint64_t MatrixBytes(const model::ModelConfig& config, const CudaShare& share, DType dtype) {
  const uint64_t of_layer =
      uint64_t{2} * (share.heads + share.kv_heads) * config.head_dim + uint64_t{3} * share.intermediate;
  const uint64_t head = config.tied_head ? 0 : share.vocab;
  return BytesOf(dtype, config.hidden * (config.vocab + config.layers * of_layer + head));
}

// Two pinned buffers that are filled in turn while the other one is being copied.
class Uploader {
 public:
  static absl::StatusOr<Uploader> Create(const device::Stream& stream, const UploadProgress& progress,
                                         CudaWeights& weights) {
    Uploader uploader(stream, progress, weights);
    for (Buffer& buffer : uploader.buffers_) {
      BATON_ASSIGN_OR_RETURN(buffer.memory, Memory::Allocate(MemoryKind::kPinned, kStagingBytes));
      BATON_ASSIGN_OR_RETURN(buffer.copied, device::Event::Create());
    }
    return uploader;
  }

  // The rows of `parts` one below the other, in the weights' format.
  absl::Status Matrix(std::initializer_list<Part> parts, const void*& out) {
    uint64_t rows = 0;
    for (const Part& part : parts) rows += part.rows;
    const uint64_t row_bytes = BytesOf(dtype_, parts.begin()->columns);
    BATON_ASSIGN_OR_RETURN(std::byte * to, Reserve(rows * row_bytes));
    out = to;
    for (const Part& part : parts) {
      const uint64_t at_once = std::max<uint64_t>(1, kStagingBytes / row_bytes);
      if (row_bytes > kStagingBytes) return InvalidArgument("a row of %s has %d bytes", part.tensor->name, row_bytes);
      for (uint64_t first = 0, count; first < part.rows; first += count, to += count * row_bytes) {
        count = std::min(at_once, part.rows - first);
        BATON_RETURN_IF_ERROR(
            Send(to, count * row_bytes, [&](std::byte* staging) { return ReadAs(part, first, count, staging); }));
        weights_.matrix_bytes += count * row_bytes;
        if (progress_) progress_(weights_.matrix_bytes, total_);
      }
    }
    return absl::OkStatus();
  }

  // The elements of `parts`, or a rank's share of each, one behind the other as f32; null when the first is not there.
  absl::Status Vector(std::initializer_list<const std::optional<TensorView>*> parts, const float*& out,
                      const CudaShard& shard = {}) {
    if (!(*parts.begin())->has_value()) return absl::OkStatus();
    std::vector<float> values, whole;
    for (const auto* part : parts) {
      whole.resize((*part)->cols);
      BATON_RETURN_IF_ERROR(ReadRows(**part, 0, 1, whole.data()));
      const size_t share = whole.size() / shard.ranks;
      values.insert(values.end(), whole.begin() + share * shard.rank, whole.begin() + share * (shard.rank + 1));
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

  Uploader(const device::Stream& stream, const UploadProgress& progress, CudaWeights& weights)
      : stream_(stream),
        dtype_(weights.dtype),
        progress_(progress),
        total_(MatrixBytes(weights.config, weights.share, weights.dtype)),
        weights_(weights) {}

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

  // `count` rows from `first` of the part's on.
  absl::Status ReadAs(const Part& part, uint64_t first, uint64_t count, std::byte* out) {
    const TensorView& tensor = *part.tensor;
    first += part.first_row;
    if (part.columns == tensor.cols) {
      if (tensor.dtype == dtype_) return ReadRowBytes(tensor, first, count, out);
      if (dtype_ == DType::kF32) return ReadRows(tensor, first, count, reinterpret_cast<float*>(out));
    }
    const uint64_t out_bytes = BytesOf(dtype_, part.columns);
    for (uint64_t row = first; row < first + count; ++row, out += out_bytes) {
      if (tensor.dtype == dtype_) {
        row_bytes_.resize(tensor.row_bytes());
        BATON_RETURN_IF_ERROR(ReadRowBytes(tensor, row, 1, row_bytes_.data()));
        std::memcpy(out, row_bytes_.data() + BytesOf(dtype_, part.first_column), out_bytes);
        continue;
      }
      row_.resize(tensor.cols);
      BATON_RETURN_IF_ERROR(ReadRows(tensor, row, 1, row_.data()));
      Narrow({row_.data() + part.first_column, part.columns}, out);
    }
    return absl::OkStatus();
  }

  void Narrow(std::span<const float> values, std::byte* out) const {
    if (dtype_ == DType::kF32) {
      std::memcpy(out, values.data(), values.size_bytes());
      return;
    }
    auto* to = reinterpret_cast<uint16_t*>(out);
    for (const float value : values) *to++ = dtype_ == DType::kF16 ? F16FromF32(value) : BF16FromF32(value);
  }

  const device::Stream& stream_;
  const DType dtype_;
  const UploadProgress& progress_;
  const uint64_t total_;
  CudaWeights& weights_;
  Buffer buffers_[2];
  int next_ = 0;
  std::vector<float> row_;
  std::vector<std::byte> row_bytes_;
};

absl::Status LoadLayer(const model::LayerWeights& from, const CudaShard& shard, Uploader& uploader,
                       CudaLayerWeights& to) {
  const auto rows = [&](const TensorView& tensor) { return RowsOf(tensor, shard); };
  BATON_RETURN_IF_ERROR(uploader.Vector(from.attention_norm, to.attention_norm));
  BATON_RETURN_IF_ERROR(uploader.Matrix({rows(from.q), rows(from.k), rows(from.v)}, to.qkv));
  BATON_RETURN_IF_ERROR(uploader.Vector({&from.q_bias, &from.k_bias, &from.v_bias}, to.qkv_bias, shard));
  BATON_RETURN_IF_ERROR(uploader.Vector({&from.q_norm}, to.q_norm));
  BATON_RETURN_IF_ERROR(uploader.Vector({&from.k_norm}, to.k_norm));
  BATON_RETURN_IF_ERROR(uploader.Matrix({ColumnsOf(from.o, shard)}, to.o));
  BATON_RETURN_IF_ERROR(uploader.Vector({&from.o_bias}, to.o_bias));
  BATON_RETURN_IF_ERROR(uploader.Vector(from.ffn_norm, to.ffn_norm));
  BATON_RETURN_IF_ERROR(uploader.Matrix({rows(from.gate), rows(from.up)}, to.gate_up));
  return uploader.Matrix({ColumnsOf(from.down, shard)}, to.down);
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

uint32_t VocabPerRank(const model::ModelConfig& config, uint32_t ranks) {
  constexpr uint32_t kMultiple = 8;  // what matrix products like
  return ((config.vocab + ranks - 1) / ranks + kMultiple - 1) / kMultiple * kMultiple;
}

absl::StatusOr<CudaShare> ShareOf(const model::ModelConfig& config, const CudaShard& shard) {
  const uint32_t ranks = shard.ranks;
  if (ranks == 0 || shard.rank >= ranks) return InvalidArgument("rank %d of %d", shard.rank, ranks);
  if (config.kv_heads % ranks != 0) {
    return InvalidArgument("tensor parallel size %d: the model has %d KV heads, of which every rank takes as many",
                           ranks, config.kv_heads);
  }
  if (ranks > 1 && config.intermediate % (8 * ranks) != 0) {
    return InvalidArgument("tensor parallel size %d: a rank takes a multiple of 8 of the model's feed-forward width %d",
                           ranks, config.intermediate);
  }
  const uint32_t vocab = VocabPerRank(config, ranks);
  const uint32_t first = std::min(config.vocab, vocab * shard.rank);
  return CudaShare{.heads = config.heads / ranks,
                   .kv_heads = config.kv_heads / ranks,
                   .intermediate = config.intermediate / ranks,
                   .first_token = ranks == 1 ? 0 : first,
                   .vocab = ranks == 1 ? config.vocab : std::min(vocab, config.vocab - first)};
}

absl::StatusOr<std::shared_ptr<const CudaWeights>> LoadCudaWeights(const model::Model& model, DType dtype,
                                                                   const device::Stream& stream, const CudaShard& shard,
                                                                   const UploadProgress& progress) {
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    return InvalidArgument("the CUDA engine computes with f32, f16 or bf16 weights, not %s", DTypeName(dtype));
  }
  auto weights = std::make_shared<CudaWeights>();
  BATON_ASSIGN_OR_RETURN(weights->share, ShareOf(model.config, shard));
  BATON_ASSIGN_OR_RETURN(weights->device, device::Current());
  weights->config = model.config;
  weights->shard = shard;
  weights->rope = model.rope;
  weights->dtype = dtype;
  weights->identity = HashText(DTypeName(dtype), HashText(model.weights_format, model.weights_identity));
  weights->layers.resize(model.layers.size());
  BATON_ASSIGN_OR_RETURN(Uploader uploader, Uploader::Create(stream, progress, *weights));
  BATON_RETURN_IF_ERROR(uploader.Matrix({AllOf(model.embedding)}, weights->embedding));
  for (size_t i = 0; i < model.layers.size(); ++i) {
    BATON_RETURN_IF_ERROR(LoadLayer(model.layers[i], shard, uploader, weights->layers[i]));
  }
  BATON_RETURN_IF_ERROR(uploader.Vector(model.final_norm, weights->final_norm));
  const CudaShare& share = weights->share;
  if (model.config.tied_head) {
    weights->lm_head =
        static_cast<const std::byte*>(weights->embedding) + share.first_token * BytesOf(dtype, model.config.hidden);
  } else if (share.vocab > 0) {
    const Part rows{&model.lm_head, share.first_token, share.vocab, 0, model.lm_head.cols};
    BATON_RETURN_IF_ERROR(uploader.Matrix({rows}, weights->lm_head));
  }
  BATON_RETURN_IF_ERROR(LoadRope(model.config, model.rope, uploader, *weights));
  BATON_RETURN_IF_ERROR(stream.Synchronize());
  BATON_RETURN_IF_ERROR(model.CheckFilesUnchanged());
  return std::shared_ptr<const CudaWeights>(std::move(weights));
}

absl::StatusOr<std::vector<std::shared_ptr<const CudaWeights>>> LoadCudaShards(const model::Model& model, DType dtype,
                                                                               std::span<const int> devices,
                                                                               const UploadProgress& progress) {
  if (devices.empty()) return InvalidArgument("weights for no device");
  std::vector<std::shared_ptr<const CudaWeights>> shards;
  for (const int device : devices) {
    const CudaShard shard{.rank = static_cast<uint32_t>(shards.size()), .ranks = static_cast<uint32_t>(devices.size())};
    BATON_RETURN_IF_ERROR(device::Open(device).status());
    BATON_ASSIGN_OR_RETURN(const device::Stream stream, device::Stream::Create());
    // Shards are of about one size.
    const UploadProgress of_all = [&](uint64_t done, uint64_t total) {
      if (progress) progress(total * shard.rank + done, total * shard.ranks);
    };
    BATON_ASSIGN_OR_RETURN(auto weights, LoadCudaWeights(model, dtype, stream, shard, of_all));
    shards.push_back(std::move(weights));
  }
  BATON_RETURN_IF_ERROR(device::Use(devices.front()));
  return shards;
}

}  // namespace baton
