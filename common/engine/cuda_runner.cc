#include "common/engine/cuda_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/device/device.h"
#include "common/engine/step_check.h"
#include "kernels/cuda/block_copy.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/rms_norm.h"
#include "kernels/cuda/rope_kv.h"
#include "kernels/cuda/swiglu.h"

namespace baton {
namespace {

// Raised whenever a change to kernels or runner may change a bit of any result.
constexpr int kKernelVersion = 1;
// The workspace of decode attention is for so many rows; more are taken in turn.
constexpr int64_t kDecodeRowsAtOnce = 128;
constexpr uint64_t kAlignment = 256;

absl::Status CheckShapes(const CudaWeights& weights, const KvLayout& layout, std::span<std::byte> pool) {
  const model::ModelConfig& config = weights.config;
  if (layout.layers != config.layers || layout.kv_heads != config.kv_heads || layout.head_dim != config.head_dim) {
    return InvalidArgument("KV layout has %d layers, %d heads of %d; the model has %d, %d of %d", layout.layers,
                           layout.kv_heads, layout.head_dim, config.layers, config.kv_heads, config.head_dim);
  }
  if (layout.key_order != KeyOrder::kBySlot) {
    return InvalidArgument("keys lie element by element; the CUDA engine reads them slot by slot");
  }
  if (layout.dtype != weights.dtype) {
    return InvalidArgument("KV format %s, weights %s: the CUDA engine computes with one format",
                           DTypeName(layout.dtype), DTypeName(weights.dtype));
  }
  if (config.head_dim % 8 != 0 || config.head_dim > 256 || config.hidden % 8 != 0 || config.intermediate % 8 != 0) {
    return InvalidArgument(
        "head_dim %d, hidden %d, intermediate %d: the CUDA engine takes multiples of 8, head_dim up to 256",
        config.head_dim, config.hidden, config.intermediate);
  }
  if (layout.block_size == 0 || pool.size() % layout.BytesPerBlock() != 0) {
    return InvalidArgument("the pool's %d bytes are no whole number of blocks of %d bytes", pool.size(),
                           layout.block_size == 0 ? 0 : layout.BytesPerBlock());
  }
  if (reinterpret_cast<uintptr_t>(pool.data()) % 16 != 0) return InvalidArgument("the pool is not aligned to 16 bytes");
  return absl::OkStatus();
}

absl::Status Enqueued(cuda::Error error, std::string_view what) {
  return device::ToStatus(static_cast<int>(error), what);
}

#define BATON_ENQUEUE(call) BATON_RETURN_IF_ERROR(Enqueued(call, "enqueueing a kernel"))

}  // namespace

absl::StatusOr<std::unique_ptr<CudaRunner>> CudaRunner::Create(std::shared_ptr<const CudaWeights> weights,
                                                               const KvLayout& layout, std::span<std::byte> pool,
                                                               const CudaRunnerOptions& options) {
  BATON_RETURN_IF_ERROR(CheckShapes(*weights, layout, pool));
  if (options.max_step_tokens == 0 || options.max_batch == 0) {
    return InvalidArgument("a step takes %d tokens and %d sequences; both must be at least 1", options.max_step_tokens,
                           options.max_batch);
  }
  std::unique_ptr<CudaRunner> runner(new CudaRunner(std::move(weights), layout, pool, options));
  BATON_RETURN_IF_ERROR(runner->Allocate());
  if (options.graphs) BATON_RETURN_IF_ERROR(runner->RecordGraphs());
  return runner;
}

CudaRunner::CudaRunner(std::shared_ptr<const CudaWeights> weights, const KvLayout& layout, std::span<std::byte> pool,
                       const CudaRunnerOptions& options)
    : weights_(std::move(weights)),
      layout_(layout),
      pool_(pool),
      options_(options),
      table_stride_(static_cast<int32_t>(layout.BlocksFor(weights_->config.max_length))) {}

absl::Status CudaRunner::Allocate() {
  const model::ModelConfig& config = weights_->config;
  const uint64_t size = BlockOf(weights_->dtype).bytes;
  const uint64_t rows = std::max(options_.max_step_tokens, options_.max_batch);
  const uint64_t batch = options_.max_batch;
  BATON_ASSIGN_OR_RETURN(stream_, device::Stream::Create());
  const auto allocate = [](device::Memory& memory, uint64_t bytes,
                           device::MemoryKind kind = device::MemoryKind::kDevice) {
    auto allocated = device::Memory::Allocate(kind, bytes);
    if (allocated.ok()) memory = *std::move(allocated);
    return allocated.status();
  };
  const uint64_t input_bytes = InputsIn(nullptr).bytes;
  const uint64_t decode_bytes = cuda::DecodeAttentionWorkspace(
      DecodeShape(0, config.max_length), static_cast<int32_t>(config.head_dim), kDecodeRowsAtOnce);
  const std::pair<device::Memory*, uint64_t> sizes[] = {
      {&device_inputs_, input_bytes},
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
  BATON_RETURN_IF_ERROR(allocate(host_inputs_, input_bytes, device::MemoryKind::kPinned));
  BATON_RETURN_IF_ERROR(allocate(host_logits_, batch * config.vocab * sizeof(float), device::MemoryKind::kPinned));
  BATON_RETURN_IF_ERROR(allocate(swap_, options_.swap_blocks * layout_.BytesPerBlock(), device::MemoryKind::kPinned));
  host_ = InputsIn(host_inputs_.data());
  device_ = InputsIn(device_inputs_.data());
  tiles_.reserve(MaxTiles());
  last_rows_.resize(options_.max_batch);
  return Enqueued(cuda::Gemm::Create(gemm_workspace_.data(), options_.deterministic, gemm_), "starting cuBLASLt");
}

int64_t CudaRunner::MaxTiles() const {
  const int64_t group = weights_->config.heads / weights_->config.kv_heads;
  return options_.max_step_tokens * group / cuda::kPrefillRows + options_.max_batch + 1;
}

CudaRunner::Inputs CudaRunner::InputsIn(std::byte* memory) const {
  Inputs inputs;
  const uint64_t rows = std::max(options_.max_step_tokens, options_.max_batch);
  const auto take = [&]<typename T>(T*& array, uint64_t count) {
    array = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(memory) + inputs.bytes);
    inputs.bytes += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  };
  take(inputs.tokens, rows);
  take(inputs.positions, rows);
  take(inputs.sequences, rows);
  take(inputs.wanted, options_.max_batch);
  take(inputs.tiles, static_cast<uint64_t>(MaxTiles()));
  take(inputs.tables, uint64_t{options_.max_batch} * table_stride_);
  return inputs;
}

absl::Status CudaRunner::RecordGraphs() {
  // Powers of two up to 16, then steps of 16: at most a third of a batch is padding, and there are few graphs.
  for (int64_t rows = 1;; rows = rows < 16 ? rows * 2 : rows + 16) {
    const Shape shape{.rows = std::min<int64_t>(rows, options_.max_batch),
                      .decode_rows = std::min<int64_t>(rows, options_.max_batch),
                      .wanted = std::min<int64_t>(rows, options_.max_batch),
                      .max_length = weights_->config.max_length};
    BATON_ASSIGN_OR_RETURN(device::Graph graph, device::Graph::Record(stream_, [&] { return EnqueueStep(shape); }));
    graphs_.emplace(shape.rows, std::move(graph));
    if (rows >= options_.max_batch) return absl::OkStatus();
  }
}

absl::StatusOr<CudaRunner::Shape> CudaRunner::SendInputs(std::span<const StepSequence> batch) {
  const bool prefill = !options_.deterministic && cuda::TakesPrefill(KvOf(0));
  const auto group = static_cast<int32_t>(weights_->config.heads / weights_->config.kv_heads);
  Shape shape;
  tiles_.clear();
  bool all_wanted = true;
  // Rows that attention takes one by one first, then chunks; the wanted ones in the order of the batch.
  for (const bool chunks : {false, true}) {
    for (size_t i = 0; i < batch.size(); ++i) {
      const StepSequence& sequence = batch[i];
      if ((prefill && sequence.tokens.size() > 1) != chunks) continue;
      const int64_t first = shape.rows;
      for (size_t t = 0; t < sequence.tokens.size(); ++t, ++shape.rows) {
        host_.tokens[shape.rows] = sequence.tokens[t];
        host_.positions[shape.rows] = static_cast<int32_t>(sequence.position + t);
        host_.sequences[shape.rows] = static_cast<int32_t>(i);
      }
      last_rows_[i] = shape.rows - 1;
      if (chunks) {
        cuda::AppendPrefillTiles(static_cast<int32_t>(i), static_cast<int32_t>(first),
                                 static_cast<int32_t>(sequence.tokens.size()), static_cast<int32_t>(sequence.position),
                                 group, tiles_);
      } else {
        shape.max_length = std::max<int64_t>(shape.max_length, sequence.position + sequence.tokens.size());
      }
      const uint32_t blocks = layout_.BlocksFor(sequence.position + sequence.tokens.size());
      std::copy_n(sequence.blocks.data(), blocks, host_.tables + i * table_stride_);
    }
    if (!chunks) shape.decode_rows = shape.rows;
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!batch[i].wants_logits) {
      all_wanted = false;
      continue;
    }
    host_.wanted[shape.wanted++] = static_cast<BlockId>(last_rows_[i]);
  }
  shape.gathered = !all_wanted || shape.rows != shape.wanted;
  shape.tiles = static_cast<int64_t>(tiles_.size());
  if (!shape.gathered && shape.decode_rows == shape.rows) {
    if (const auto graph = graphs_.lower_bound(shape.rows); graph != graphs_.end()) {
      for (; shape.rows < graph->first; ++shape.rows) {
        host_.tokens[shape.rows] = 0;
        host_.positions[shape.rows] = -1;
        host_.sequences[shape.rows] = 0;
      }
    }
  }
  std::copy(tiles_.begin(), tiles_.end(), host_.tiles);
  const auto send = [&]<typename T>(T* to, const T* from, uint64_t count) {
    return count == 0 ? absl::OkStatus() : stream_.Copy(to, from, count * sizeof(T));
  };
  BATON_RETURN_IF_ERROR(send(device_.tokens, host_.tokens, shape.rows));
  BATON_RETURN_IF_ERROR(send(device_.positions, host_.positions, shape.rows));
  BATON_RETURN_IF_ERROR(send(device_.sequences, host_.sequences, shape.rows));
  if (shape.gathered) BATON_RETURN_IF_ERROR(send(device_.wanted, host_.wanted, shape.wanted));
  BATON_RETURN_IF_ERROR(send(device_.tiles, host_.tiles, shape.tiles));
  BATON_RETURN_IF_ERROR(send(device_.tables, host_.tables, batch.size() * table_stride_));
  return shape;
}

absl::Status CudaRunner::Step(std::span<const StepSequence> batch, std::span<std::span<float>> logits) {
  const model::ModelConfig& config = weights_->config;
  BATON_RETURN_IF_ERROR(CheckStep(batch, logits.size(), layout_,
                                  {.max_step_tokens = options_.max_step_tokens,
                                   .max_batch = options_.max_batch,
                                   .max_length = config.max_length,
                                   .vocab = config.vocab,
                                   .pool_blocks = static_cast<uint32_t>(pool_.size() / layout_.BytesPerBlock())}));
  BATON_ASSIGN_OR_RETURN(const Shape shape, SendInputs(batch));
  const auto graph = graphs_.find(shape.rows);
  if (!shape.gathered && shape.tiles == 0 && graph != graphs_.end() && shape.rows > 0) {
    BATON_RETURN_IF_ERROR(graph->second.Launch(stream_));
  } else {
    BATON_RETURN_IF_ERROR(EnqueueStep(shape));
  }
  if (shape.wanted > 0) {
    BATON_RETURN_IF_ERROR(
        stream_.Copy(host_logits_.data(), logits_.data(), shape.wanted * config.vocab * sizeof(float)));
  }
  BATON_RETURN_IF_ERROR(stream_.Synchronize());
  float* next = host_logits_.as<float>();
  for (size_t i = 0; i < batch.size(); ++i) {
    logits[i] = {};
    if (!batch[i].wants_logits) continue;
    logits[i] = {next, config.vocab};
    next += config.vocab;
  }
  CountWork(batch);
  return absl::OkStatus();
}

absl::Status CudaRunner::Product(const void* x, const void* w, int64_t rows, int64_t outputs, int64_t inputs,
                                 DType y_dtype, void* y) {
  return Enqueued(gemm_->Run(weights_->dtype, x, w, rows, outputs, inputs, y_dtype, y, stream_.get()),
                  "enqueueing a matrix product");
}

absl::Status CudaRunner::EnqueueStep(const Shape& shape) {
  if (shape.rows == 0) return absl::OkStatus();
  const model::ModelConfig& config = weights_->config;
  const DType dtype = weights_->dtype;
  BATON_ENQUEUE(cuda::Embedding(dtype, weights_->embedding, device_.tokens, shape.rows, config.hidden,
                                hidden_.as<float>(), stream_.get()));
  for (uint32_t layer = 0; layer < config.layers; ++layer) BATON_RETURN_IF_ERROR(EnqueueLayer(layer, shape));
  if (shape.wanted == 0) return absl::OkStatus();
  BATON_ENQUEUE(cuda::AddRmsNorm(dtype, hidden_.as<float>(), delta_.data(), nullptr, weights_->final_norm,
                                 config.rms_norm_eps, shape.rows, config.hidden, normed_.data(), stream_.get()));
  const std::byte* rows = normed_.data();
  if (shape.gathered) {
    const auto row_bytes = static_cast<int64_t>(BytesOf(dtype, config.hidden));
    BATON_ENQUEUE(cuda::CopyBlocks(normed_.data(), device_.wanted, selected_.data(), nullptr, shape.wanted, row_bytes,
                                   stream_.get()));
    rows = selected_.data();
  }
  const int64_t wanted = shape.gathered ? shape.wanted : shape.rows;  // padding included
  return Product(rows, weights_->lm_head, wanted, config.vocab, config.hidden, DType::kF32, logits_.data());
}

absl::Status CudaRunner::EnqueueLayer(uint32_t layer, const Shape& shape) {
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

absl::Status CudaRunner::EnqueueAttention(uint32_t layer, const Shape& shape) {
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
  BATON_ENQUEUE(cuda::PrefillAttention(prefill, KvOf(layer), device_.tables, table_stride_, device_.tiles, shape.tiles,
                                       qkv_.data(), context_.data(), stream_.get()));
  return absl::OkStatus();
}

cuda::PagedKv CudaRunner::KvOf(uint32_t layer) const {
  return {.dtype = layout_.dtype,
          .keys = pool_.data() + layout_.HeadOffset(0, layer, 0, 0),
          .values = pool_.data() + layout_.HeadOffset(0, layer, 1, 0),
          .kv_heads = static_cast<int32_t>(layout_.kv_heads),
          .head_dim = static_cast<int32_t>(layout_.head_dim),
          .block_size = static_cast<int32_t>(layout_.block_size),
          .block_stride = static_cast<int64_t>(layout_.BytesPerBlock() / BlockOf(layout_.dtype).bytes)};
}

cuda::PagedRows CudaRunner::RowsFrom(int64_t first) const {
  return {device_.positions + first, device_.sequences + first, device_.tables, table_stride_};
}

cuda::DecodeAttentionShape CudaRunner::DecodeShape(uint32_t layer, int64_t max_length) const {
  const model::ModelConfig& config = weights_->config;
  return {.heads = static_cast<int32_t>(config.heads),
          .window = config.windows.empty() ? 0 : static_cast<int32_t>(config.windows[layer]),
          .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
          .max_length = max_length,
          .q_stride = config.q_rows() + 2 * int64_t{config.kv_rows()}};
}

// Between steps, in the stream's order: whatever comes after sees the bytes moved. An error comes out of the next step.
void CudaRunner::MoveBlock(void* to, const void* from) {
  stream_.Copy(to, from, layout_.BytesPerBlock()).IgnoreError();
}

void CudaRunner::CopyBlock(BlockId from, BlockId to) {
  const uint64_t bytes = layout_.BytesPerBlock();
  BATON_CHECK((from + uint64_t{1}) * bytes <= pool_.size() && (to + uint64_t{1}) * bytes <= pool_.size());
  MoveBlock(pool_.data() + to * bytes, pool_.data() + from * bytes);
}

void CudaRunner::SwapOut(BlockId from, uint32_t slot) {
  const uint64_t bytes = layout_.BytesPerBlock();
  BATON_CHECK((from + uint64_t{1}) * bytes <= pool_.size() && slot < options_.swap_blocks);
  MoveBlock(swap_.data() + slot * bytes, pool_.data() + from * bytes);
}

void CudaRunner::SwapIn(uint32_t slot, BlockId to) {
  const uint64_t bytes = layout_.BytesPerBlock();
  BATON_CHECK((to + uint64_t{1}) * bytes <= pool_.size() && slot < options_.swap_blocks);
  MoveBlock(pool_.data() + to * bytes, swap_.data() + slot * bytes);
}

void CudaRunner::CountWork(std::span<const StepSequence> batch) {
  const model::ModelConfig& config = weights_->config;
  const uint64_t size = BlockOf(weights_->dtype).bytes;
  uint64_t rows = 0, wanted = 0, pairs = 0, kv_tokens = 0;
  for (const StepSequence& sequence : batch) {
    const uint64_t queries = sequence.tokens.size();
    rows += queries;
    wanted += sequence.wants_logits ? 1 : 0;
    pairs += queries * sequence.position + queries * (queries + 1) / 2;
    kv_tokens += sequence.position + 2 * queries;  // read once, the new ones written too
  }
  const uint64_t hidden = config.hidden;
  const uint64_t layer = hidden * (2 * config.q_rows() + 2 * config.kv_rows() + 3 * uint64_t{config.intermediate});
  const uint64_t head = hidden * config.vocab;
  work_.flops = 2 * (rows * config.layers * layer + wanted * head) + 4 * pairs * config.q_rows() * config.layers;
  work_.bytes =
      rows == 0 ? 0 : (config.layers * layer + (wanted > 0 ? head : 0)) * size + kv_tokens * layout_.BytesPerToken();
}

NumericsHash CudaRunner::numerics_hash() const {
  const model::RopeTable& rope = weights_->rope;
  Hash128 hash = HashText("cuda engine, kernels " + std::to_string(kKernelVersion) +
                              (options_.deterministic ? ", deterministic" : "") + ", tensor parallel 1",
                          weights_->identity);
  hash = HashBytes(std::as_bytes(std::span(rope.inverse_frequencies)), hash);
  hash = HashBytes(std::as_bytes(std::span(&rope.attention_scale, 1)), hash);
  return NumericsHash{hash.low};
}

}  // namespace baton
