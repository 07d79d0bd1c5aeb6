#include "common/engine/cuda_rank.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/device/device.h"
#include "kernels/cuda/block_copy.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/prefill_attention.h"
#include "kernels/cuda/rms_norm.h"
#include "kernels/cuda/rope_kv.h"
#include "kernels/cuda/swiglu.h"

namespace baton {
namespace {

// The workspace of decode attention is for so many rows; more are taken in turn.
constexpr int64_t kDecodeRowsAtOnce = 128;

absl::Status Enqueued(cuda::Error error, std::string_view what) {
  return device::ToStatus(static_cast<int>(error), what);
}

#define BATON_ENQUEUE(call) BATON_RETURN_IF_ERROR(Enqueued(call, "enqueueing a kernel"))

}  // namespace

absl::StatusOr<std::unique_ptr<CudaRank>> CudaRank::Create(std::shared_ptr<const CudaWeights> weights,
                                                           const KvLayout& layout, std::span<std::byte> pool,
                                                           const CudaRunnerOptions& options,
                                                           const CudaStepLimits& limits) {
  std::unique_ptr<CudaRank> rank(new CudaRank(std::move(weights), layout, pool, options, limits));
  BATON_RETURN_IF_ERROR(rank->Allocate());
  return rank;
}

CudaRank::CudaRank(std::shared_ptr<const CudaWeights> weights, const KvLayout& layout, std::span<std::byte> pool,
                   const CudaRunnerOptions& options, const CudaStepLimits& limits)
    : weights_(std::move(weights)),
      layout_(layout),
      pool_(pool),
      options_(options),
      limits_(limits),
      takes_prefill_(!options.deterministic && cuda::TakesPrefill(KvOf(0))) {}

absl::Status CudaRank::Allocate() {
  const model::ModelConfig& config = weights_->config;
  const uint64_t size = BlockOf(weights_->dtype).bytes;
  const uint64_t rows = limits_.rows, batch = limits_.batch;
  BATON_ASSIGN_OR_RETURN(stream_, device::Stream::Create());
  const auto allocate = [](device::Memory& memory, uint64_t bytes,
                           device::MemoryKind kind = device::MemoryKind::kDevice) {
    auto allocated = device::Memory::Allocate(kind, bytes);
    if (allocated.ok()) memory = *std::move(allocated);
    return allocated.status();
  };
  const uint64_t decode_bytes = cuda::DecodeAttentionWorkspace(
      DecodeShape(0, config.max_length), static_cast<int32_t>(config.head_dim), kDecodeRowsAtOnce);
  const std::pair<device::Memory*, uint64_t> sizes[] = {
      {&input_memory_, CudaStepInputs::In(nullptr, limits_).bytes},
      {&hidden_, rows * config.hidden * sizeof(float)},
      {&normed_, rows * config.hidden * size},
      {&qkv_, rows * (config.q_rows() + 2 * config.kv_rows()) * size},
      {&context_, rows * config.q_rows() * size},
      {&delta_, rows * config.hidden * size},
      {&gate_up_, rows * 2 * config.intermediate * size},
      {&ffn_, rows * config.intermediate * size},
      {&selected_, batch * config.hidden * size},
      {&logits_, batch * config.vocab * sizeof(float)},
      {&attention_, decode_bytes},
      {&gemm_workspace_, cuda::Gemm::kWorkspaceBytes},
  };
  for (const auto& [memory, bytes] : sizes) BATON_RETURN_IF_ERROR(allocate(*memory, bytes));
  BATON_RETURN_IF_ERROR(allocate(swap_, options_.swap_blocks * layout_.BytesPerBlock(), device::MemoryKind::kPinned));
  inputs_ = CudaStepInputs::In(input_memory_.data(), limits_);
  return Enqueued(cuda::Gemm::Create(gemm_workspace_.data(), options_.deterministic, gemm_), "starting cuBLASLt");
}

absl::Status CudaRank::SendInputs(const CudaStepInputs& host, const CudaStepShape& shape) {
  const auto send = [&]<typename T>(T* to, const T* from, uint64_t count) {
    return count == 0 ? absl::OkStatus() : stream_.Copy(to, from, count * sizeof(T));
  };
  BATON_RETURN_IF_ERROR(send(inputs_.tokens, host.tokens, shape.rows));
  BATON_RETURN_IF_ERROR(send(inputs_.positions, host.positions, shape.rows));
  BATON_RETURN_IF_ERROR(send(inputs_.sequences, host.sequences, shape.rows));
  if (shape.gathered) BATON_RETURN_IF_ERROR(send(inputs_.wanted, host.wanted, shape.wanted));
  BATON_RETURN_IF_ERROR(send(inputs_.tiles, host.tiles, shape.tiles));
  return send(inputs_.tables, host.tables, shape.tables * limits_.table_stride);
}

absl::Status CudaRank::Product(const void* x, const void* w, int64_t rows, int64_t outputs, int64_t inputs,
                               DType y_dtype, void* y) {
  return Enqueued(gemm_->Run(weights_->dtype, x, w, rows, outputs, inputs, y_dtype, y, stream_.get()),
                  "enqueueing a matrix product");
}

absl::Status CudaRank::EnqueueStep(const CudaStepShape& shape) {
  if (shape.rows == 0) return absl::OkStatus();
  const model::ModelConfig& config = weights_->config;
  BATON_ENQUEUE(cuda::Embedding(weights_->dtype, weights_->embedding, inputs_.tokens, shape.rows, config.hidden,
                                hidden_.as<float>(), stream_.get()));
  for (uint32_t layer = 0; layer < config.layers; ++layer) BATON_RETURN_IF_ERROR(EnqueueLayer(layer, shape));
  return shape.wanted == 0 ? absl::OkStatus() : EnqueueHead(shape);
}

absl::Status CudaRank::EnqueueHead(const CudaStepShape& shape) {
  const model::ModelConfig& config = weights_->config;
  const DType dtype = weights_->dtype;
  BATON_ENQUEUE(cuda::AddRmsNorm(dtype, hidden_.as<float>(), delta_.data(), nullptr, weights_->final_norm,
                                 config.rms_norm_eps, shape.rows, config.hidden, normed_.data(), stream_.get()));
  const std::byte* rows = normed_.data();
  if (shape.gathered) {
    const auto row_bytes = static_cast<int64_t>(BytesOf(dtype, config.hidden));
    BATON_ENQUEUE(cuda::CopyBlocks(normed_.data(), inputs_.wanted, selected_.data(), nullptr, shape.wanted, row_bytes,
                                   stream_.get()));
    rows = selected_.data();
  }
  const int64_t wanted = shape.gathered ? shape.wanted : shape.rows;  // padding included
  return Product(rows, weights_->lm_head, wanted, config.vocab, config.hidden, DType::kF32, logits_.data());
}

absl::Status CudaRank::EnqueueLayer(uint32_t layer, const CudaStepShape& shape) {
  const model::ModelConfig& config = weights_->config;
  const CudaLayerWeights& weights = weights_->layers[layer];
  const DType dtype = weights_->dtype;
  // What the layer before adds comes with this one's first norm.
  BATON_ENQUEUE(cuda::AddRmsNorm(dtype, hidden_.as<float>(), layer == 0 ? nullptr : delta_.data(), nullptr,
                                 weights.attention_norm, config.rms_norm_eps, shape.rows, config.hidden, normed_.data(),
                                 stream_.get()));
  BATON_RETURN_IF_ERROR(Product(normed_.data(), weights.qkv, shape.rows, config.q_rows() + 2 * config.kv_rows(),
                                config.hidden, dtype, qkv_.data()));
  const cuda::RopeKvWeights rope{.bias = weights.qkv_bias,
                                 .q_norm = weights.q_norm,
                                 .k_norm = weights.k_norm,
                                 .eps = config.rms_norm_eps,
                                 .cosine = weights_->cosine,
                                 .sine = weights_->sine};
  BATON_ENQUEUE(cuda::RopeAndStoreKv(rope, KvOf(layer), RowsFrom(0), shape.rows, static_cast<int32_t>(config.heads),
                                     qkv_.data(), stream_.get()));
  BATON_RETURN_IF_ERROR(EnqueueAttention(layer, shape));
  BATON_RETURN_IF_ERROR(
      Product(context_.data(), weights.o, shape.rows, config.hidden, config.q_rows(), dtype, delta_.data()));
  BATON_ENQUEUE(cuda::AddRmsNorm(dtype, hidden_.as<float>(), delta_.data(), weights.o_bias, weights.ffn_norm,
                                 config.rms_norm_eps, shape.rows, config.hidden, normed_.data(), stream_.get()));
  BATON_RETURN_IF_ERROR(Product(normed_.data(), weights.gate_up, shape.rows, 2 * int64_t{config.intermediate},
                                config.hidden, dtype, gate_up_.data()));
  BATON_ENQUEUE(cuda::SwiGlu(dtype, gate_up_.data(), shape.rows, config.intermediate, ffn_.data(), stream_.get()));
  return Product(ffn_.data(), weights.down, shape.rows, config.hidden, config.intermediate, dtype, delta_.data());
}

absl::Status CudaRank::EnqueueAttention(uint32_t layer, const CudaStepShape& shape) {
  const model::ModelConfig& config = weights_->config;
  const uint64_t size = BlockOf(weights_->dtype).bytes;
  const cuda::DecodeAttentionShape decode = DecodeShape(layer, shape.max_length);
  for (int64_t first = 0; first < shape.decode_rows; first += kDecodeRowsAtOnce) {
    const int64_t count = std::min(kDecodeRowsAtOnce, shape.decode_rows - first);
    BATON_ENQUEUE(
        cuda::DecodeAttention(decode, KvOf(layer), RowsFrom(first), count, qkv_.data() + first * decode.q_stride * size,
                              context_.data() + first * config.q_rows() * size, attention_.data(), stream_.get()));
  }
  if (shape.tiles == 0) return absl::OkStatus();
  const cuda::PrefillAttentionShape prefill{
      .heads = decode.heads, .window = decode.window, .scale = decode.scale, .q_stride = decode.q_stride};
  BATON_ENQUEUE(cuda::PrefillAttention(prefill, KvOf(layer), inputs_.tables, limits_.table_stride, inputs_.tiles,
                                       shape.tiles, qkv_.data(), context_.data(), stream_.get()));
  return absl::OkStatus();
}

cuda::PagedKv CudaRank::KvOf(uint32_t layer) const {
  return {.dtype = layout_.dtype,
          .keys = pool_.data() + layout_.HeadOffset(0, layer, 0, 0),
          .values = pool_.data() + layout_.HeadOffset(0, layer, 1, 0),
          .kv_heads = static_cast<int32_t>(layout_.kv_heads),
          .head_dim = static_cast<int32_t>(layout_.head_dim),
          .block_size = static_cast<int32_t>(layout_.block_size),
          .block_stride = static_cast<int64_t>(layout_.BytesPerBlock() / BlockOf(layout_.dtype).bytes)};
}

cuda::PagedRows CudaRank::RowsFrom(int64_t first) const {
  return {inputs_.positions + first, inputs_.sequences + first, inputs_.tables, limits_.table_stride};
}

cuda::DecodeAttentionShape CudaRank::DecodeShape(uint32_t layer, int64_t max_length) const {
  const model::ModelConfig& config = weights_->config;
  return {.heads = static_cast<int32_t>(config.heads),
          .window = config.windows.empty() ? 0 : static_cast<int32_t>(config.windows[layer]),
          .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
          .max_length = max_length,
          .q_stride = config.q_rows() + 2 * int64_t{config.kv_rows()}};
}

std::byte* CudaRank::BlockAt(BlockId block) const {
  const uint64_t bytes = layout_.BytesPerBlock();
  BATON_CHECK((block + uint64_t{1}) * bytes <= pool_.size());
  return pool_.data() + block * bytes;
}

std::byte* CudaRank::SlotAt(uint32_t slot) const {
  BATON_CHECK(slot < options_.swap_blocks);
  return swap_.data() + slot * layout_.BytesPerBlock();
}

// Between steps, in the stream's order: whatever comes after sees the bytes moved.
void CudaRank::MoveBlock(void* to, const void* from) { stream_.Copy(to, from, layout_.BytesPerBlock()).IgnoreError(); }

void CudaRank::CopyBlock(BlockId from, BlockId to) { MoveBlock(BlockAt(to), BlockAt(from)); }
void CudaRank::SwapOut(BlockId from, uint32_t slot) { MoveBlock(SlotAt(slot), BlockAt(from)); }
void CudaRank::SwapIn(uint32_t slot, BlockId to) { MoveBlock(BlockAt(to), SlotAt(slot)); }

}  // namespace baton
