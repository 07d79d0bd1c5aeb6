#include "common/engine/cuda_rank.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/engine/cuda_status.h"
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

uint64_t CudaRank::ActivationBytes(std::shared_ptr<const CudaWeights> weights, const KvLayout& layout,
                                   const CudaRunnerOptions& options, const CudaStepLimits& limits) {
  CudaRank rank(std::move(weights), layout, {}, options, limits);
  uint64_t bytes = 0;
  for (const auto& [memory, size] : rank.Activations()) bytes += size;
  return bytes;
}

std::vector<std::pair<device::Memory*, uint64_t>> CudaRank::Activations() {
  const model::ModelConfig& config = weights_->config;
  const CudaShare& share = weights_->share;
  const uint64_t size = BlockOf(weights_->dtype).bytes;
  const uint64_t rows = limits_.rows, batch = limits_.batch, ranks = weights_->shard.ranks;
  const uint64_t logits_of_rank = alone() ? 0 : batch * vocab_per_rank() * sizeof(float);
  const uint64_t decode_bytes = cuda::DecodeAttentionWorkspace(
      DecodeShape(0, config.max_length), static_cast<int32_t>(config.head_dim), kDecodeRowsAtOnce);
  return {
      {&input_memory_, CudaStepInputs::In(nullptr, limits_).bytes},
      {&hidden_, rows * config.hidden * sizeof(float)},
      {&normed_, rows * config.hidden * size},
      {&qkv_, rows * (share.heads + 2 * share.kv_heads) * config.head_dim * size},
      {&context_, rows * share.heads * config.head_dim * size},
      {&delta_, rows * config.hidden * (alone() ? size : sizeof(float))},
      {&parts_, alone() || !gathers_parts() ? 0 : ranks * rows * config.hidden * sizeof(float)},
      {&gate_up_, rows * 2 * share.intermediate * size},
      {&ffn_, rows * share.intermediate * size},
      {&selected_, batch * config.hidden * size},
      {&logits_, weights_->shard.rank == 0 ? batch * config.vocab * sizeof(float) : 0},
      {&own_logits_, logits_of_rank},
      {&all_logits_, ranks * logits_of_rank},
      {&attention_, decode_bytes},
      {&gemm_workspace_, cuda::Gemm::kWorkspaceBytes},
  };
}

absl::Status CudaRank::Allocate() {
  BATON_ASSIGN_OR_RETURN(stream_, device::Stream::Create());
  const auto allocate = [](device::Memory& memory, uint64_t bytes,
                           device::MemoryKind kind = device::MemoryKind::kDevice) {
    auto allocated = device::Memory::Allocate(kind, bytes);
    if (allocated.ok()) memory = *std::move(allocated);
    return allocated.status();
  };
  for (const auto& [memory, bytes] : Activations()) BATON_RETURN_IF_ERROR(allocate(*memory, bytes));
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

absl::Status CudaRank::EnqueueEmbedding(const CudaStepShape& shape) {
  BATON_ENQUEUE(cuda::Embedding(weights_->dtype, weights_->embedding, inputs_.tokens, shape.rows,
                                weights_->config.hidden, hidden_.as<float>(), stream_.get()));
  return absl::OkStatus();
}

absl::Status CudaRank::AddAndNorm(const float* bias, const float* norm, const CudaStepShape& shape) {
  const model::ModelConfig& config = weights_->config;
  if (alone()) {
    BATON_ENQUEUE(cuda::AddRmsNorm(weights_->dtype, hidden_.as<float>(), delta_.data(), bias, norm, config.rms_norm_eps,
                                   shape.rows, config.hidden, normed_.data(), stream_.get()));
  } else {
    const float* const parts = gathers_parts() ? parts_.as<float>() : delta_.as<float>();
    BATON_ENQUEUE(cuda::AddPartialsRmsNorm(
        weights_->dtype, hidden_.as<float>(), parts, gathers_parts() ? static_cast<int>(weights_->shard.ranks) : 1,
        bias, norm, config.rms_norm_eps, shape.rows, config.hidden, normed_.data(), stream_.get()));
  }
  return absl::OkStatus();
}

absl::Status CudaRank::AddedProduct(const void* x, const void* w, int64_t inputs, const CudaStepShape& shape) {
  return Product(x, w, shape.rows, weights_->config.hidden, inputs, alone() ? weights_->dtype : DType::kF32,
                 delta_.data());
}

CudaCollectives::Part CudaRank::added_part() const {
  return {delta_.as<float>(), gathers_parts() ? parts_.as<float>() : delta_.as<float>(), &stream_};
}

CudaCollectives::Part CudaRank::logits_part() const {
  return {own_logits_.as<float>(), all_logits_.as<float>(), &stream_};
}

absl::Status CudaRank::EnqueueAttentionHalf(uint32_t layer, const CudaStepShape& shape) {
  const model::ModelConfig& config = weights_->config;
  const CudaShare& share = weights_->share;
  const CudaLayerWeights& weights = weights_->layers[layer];
  const DType dtype = weights_->dtype;
  if (layer == 0) {
    BATON_ENQUEUE(cuda::AddRmsNorm(dtype, hidden_.as<float>(), nullptr, nullptr, weights.attention_norm,
                                   config.rms_norm_eps, shape.rows, config.hidden, normed_.data(), stream_.get()));
  } else {  // what the layer before adds comes with this one's first norm
    BATON_RETURN_IF_ERROR(AddAndNorm(nullptr, weights.attention_norm, shape));
  }
  BATON_RETURN_IF_ERROR(Product(normed_.data(), weights.qkv, shape.rows,
                                int64_t{share.heads + 2 * share.kv_heads} * config.head_dim, config.hidden, dtype,
                                qkv_.data()));
  const cuda::RopeKvWeights rope{.bias = weights.qkv_bias,
                                 .q_norm = weights.q_norm,
                                 .k_norm = weights.k_norm,
                                 .eps = config.rms_norm_eps,
                                 .cosine = weights_->cosine,
                                 .sine = weights_->sine};
  BATON_ENQUEUE(cuda::RopeAndStoreKv(rope, KvOf(layer), RowsFrom(0), shape.rows, static_cast<int32_t>(share.heads),
                                     qkv_.data(), stream_.get()));
  BATON_RETURN_IF_ERROR(EnqueueAttention(layer, shape));
  return AddedProduct(context_.data(), weights.o, int64_t{share.heads} * config.head_dim, shape);
}

absl::Status CudaRank::EnqueueFeedForwardHalf(uint32_t layer, const CudaStepShape& shape) {
  const model::ModelConfig& config = weights_->config;
  const CudaLayerWeights& weights = weights_->layers[layer];
  const int64_t width = weights_->share.intermediate;
  BATON_RETURN_IF_ERROR(AddAndNorm(weights.o_bias, weights.ffn_norm, shape));
  BATON_RETURN_IF_ERROR(
      Product(normed_.data(), weights.gate_up, shape.rows, 2 * width, config.hidden, weights_->dtype, gate_up_.data()));
  BATON_ENQUEUE(cuda::SwiGlu(weights_->dtype, gate_up_.data(), shape.rows, width, ffn_.data(), stream_.get()));
  return AddedProduct(ffn_.data(), weights.down, width, shape);
}

absl::Status CudaRank::EnqueueHead(const CudaStepShape& shape) {
  const model::ModelConfig& config = weights_->config;
  BATON_RETURN_IF_ERROR(AddAndNorm(nullptr, weights_->final_norm, shape));
  const std::byte* rows = normed_.data();
  if (shape.gathered) {
    const auto row_bytes = static_cast<int64_t>(BytesOf(weights_->dtype, config.hidden));
    BATON_ENQUEUE(cuda::CopyBlocks(normed_.data(), inputs_.wanted, selected_.data(), nullptr, shape.wanted, row_bytes,
                                   stream_.get()));
    rows = selected_.data();
  }
  if (weights_->share.vocab == 0) return absl::OkStatus();
  return Product(rows, weights_->lm_head, shape.head_rows(), weights_->share.vocab, config.hidden, DType::kF32,
                 alone() ? logits_.data() : own_logits_.data());
}

absl::Status CudaRank::MergeLogits(int64_t wanted) {
  const uint64_t vocab = weights_->config.vocab, per_rank = vocab_per_rank();
  const auto rows = static_cast<uint64_t>(wanted);
  for (uint64_t first = 0, rank = 0; first < vocab; first += per_rank, ++rank) {
    const uint64_t bytes = std::min(per_rank, vocab - first) * sizeof(float);
    BATON_RETURN_IF_ERROR(stream_.CopyRows(logits() + first, vocab * sizeof(float),
                                           all_logits_.as<float>() + rank * rows * per_rank, bytes, bytes, rows));
  }
  return absl::OkStatus();
}

absl::Status CudaRank::EnqueueAttention(uint32_t layer, const CudaStepShape& shape) {
  const uint64_t size = BlockOf(weights_->dtype).bytes;
  const uint64_t width = uint64_t{weights_->share.heads} * weights_->config.head_dim;
  const cuda::DecodeAttentionShape decode = DecodeShape(layer, shape.max_length);
  for (int64_t first = 0; first < shape.decode_rows; first += kDecodeRowsAtOnce) {
    const int64_t count = std::min(kDecodeRowsAtOnce, shape.decode_rows - first);
    BATON_ENQUEUE(cuda::DecodeAttention(decode, KvOf(layer), RowsFrom(first), count,
                                        qkv_.data() + first * decode.q_stride * size,
                                        context_.data() + first * width * size, attention_.data(), stream_.get()));
  }
  if (shape.tiles == 0) return absl::OkStatus();
  const cuda::PrefillAttentionShape prefill{
      .heads = decode.heads, .window = decode.window, .scale = decode.scale, .q_stride = decode.q_stride};
  BATON_ENQUEUE(cuda::PrefillAttention(prefill, KvOf(layer), inputs_.tables, limits_.table_stride, inputs_.tiles,
                                       shape.tiles, qkv_.data(), context_.data(), stream_.get()));
  return absl::OkStatus();
}

cuda::PagedKv CudaRank::KvOf(uint32_t layer) const {
  // As numbers: there need be no pool yet.
  const auto first_piece = [&](uint32_t kv) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(pool_.data()) +
                                        layout_.HeadOffset(0, layer, kv, 0));
  };
  return {.dtype = weights_->dtype,
          .keys = first_piece(0),
          .values = first_piece(1),
          .kv_heads = static_cast<int32_t>(layout_.kv_heads),
          .head_dim = static_cast<int32_t>(layout_.head_dim),
          .block_size = static_cast<int32_t>(layout_.block_size),
          .block_stride = static_cast<int64_t>(layout_.BytesPerBlock() / BlockOf(layout_.dtype).bytes),
          .fp8 = layout_.dtype == DType::kF8};
}

cuda::PagedRows CudaRank::RowsFrom(int64_t first) const {
  return {inputs_.positions + first, inputs_.sequences + first, inputs_.tables, limits_.table_stride};
}

cuda::DecodeAttentionShape CudaRank::DecodeShape(uint32_t layer, int64_t max_length) const {
  const model::ModelConfig& config = weights_->config;
  const CudaShare& share = weights_->share;
  return {.heads = static_cast<int32_t>(share.heads),
          .window = config.windows.empty() ? 0 : static_cast<int32_t>(config.windows[layer]),
          .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
          .max_length = max_length,
          .q_stride = int64_t{share.heads + 2 * share.kv_heads} * config.head_dim};
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
