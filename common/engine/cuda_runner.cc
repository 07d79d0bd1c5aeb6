#include "common/engine/cuda_runner.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/device/device.h"
#include "common/engine/step_check.h"

namespace baton {
namespace {

// Raised whenever a change to kernels or runner may change a bit of any result.
constexpr int kKernelVersion = 1;

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

// Of prefill attention, at most.
uint64_t MaxTiles(const model::ModelConfig& config, const CudaRunnerOptions& options) {
  const uint64_t group = config.heads / config.kv_heads;
  return options.max_step_tokens * group / cuda::kPrefillRows + options.max_batch + 1;
}

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
  BATON_RETURN_IF_ERROR(runner->Start());
  return runner;
}

CudaRunner::CudaRunner(std::shared_ptr<const CudaWeights> weights, const KvLayout& layout, std::span<std::byte> pool,
                       const CudaRunnerOptions& options)
    : weights_(std::move(weights)),
      layout_(layout),
      pool_(pool),
      options_(options),
      limits_{.rows = std::max(options.max_step_tokens, options.max_batch),
              .batch = options.max_batch,
              .tiles = MaxTiles(weights_->config, options),
              .table_stride = static_cast<int32_t>(layout.BlocksFor(weights_->config.max_length))} {}

absl::Status CudaRunner::Start() {
  const auto allocate = [](device::Memory& memory, uint64_t bytes) {
    auto allocated = device::Memory::Allocate(device::MemoryKind::kPinned, bytes);
    if (allocated.ok()) memory = *std::move(allocated);
    return allocated.status();
  };
  BATON_RETURN_IF_ERROR(allocate(input_memory_, CudaStepInputs::In(nullptr, limits_).bytes));
  BATON_RETURN_IF_ERROR(allocate(logits_, uint64_t{options_.max_batch} * weights_->config.vocab * sizeof(float)));
  inputs_ = CudaStepInputs::In(input_memory_.data(), limits_);
  tiles_.reserve(limits_.tiles);
  last_rows_.resize(options_.max_batch);
  BATON_ASSIGN_OR_RETURN(rank_, CudaRank::Create(weights_, layout_, pool_, options_, limits_));
  return options_.graphs ? RecordGraphs() : absl::OkStatus();
}

absl::Status CudaRunner::RecordGraphs() {
  // Powers of two up to 16, then steps of 16: at most a third of a batch is padding, and there are few graphs.
  for (int64_t rows = 1;; rows = rows < 16 ? rows * 2 : rows + 16) {
    const CudaStepShape shape{.rows = std::min<int64_t>(rows, options_.max_batch),
                              .decode_rows = std::min<int64_t>(rows, options_.max_batch),
                              .wanted = std::min<int64_t>(rows, options_.max_batch),
                              .max_length = weights_->config.max_length};
    BATON_ASSIGN_OR_RETURN(device::Graph graph,
                           device::Graph::Record(rank_->stream(), [&] { return rank_->EnqueueStep(shape); }));
    graphs_.emplace(shape.rows, std::move(graph));
    if (rows >= options_.max_batch) return absl::OkStatus();
  }
}

CudaStepShape CudaRunner::WriteInputs(std::span<const StepSequence> batch) {
  const bool prefill = rank_->takes_prefill();
  const auto group = static_cast<int32_t>(weights_->config.heads / weights_->config.kv_heads);
  CudaStepShape shape;
  tiles_.clear();
  bool all_wanted = true;
  // Rows that attention takes one by one first, then chunks; the wanted ones in the order of the batch.
  for (const bool chunks : {false, true}) {
    for (size_t i = 0; i < batch.size(); ++i) {
      const StepSequence& sequence = batch[i];
      if ((prefill && sequence.tokens.size() > 1) != chunks) continue;
      const int64_t first = shape.rows;
      for (size_t t = 0; t < sequence.tokens.size(); ++t, ++shape.rows) {
        inputs_.tokens[shape.rows] = sequence.tokens[t];
        inputs_.positions[shape.rows] = static_cast<int32_t>(sequence.position + t);
        inputs_.sequences[shape.rows] = static_cast<int32_t>(i);
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
      std::copy_n(sequence.blocks.data(), blocks, inputs_.tables + i * limits_.table_stride);
    }
    if (!chunks) shape.decode_rows = shape.rows;
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!batch[i].needs_logits()) {
      all_wanted = false;
      continue;
    }
    inputs_.wanted[shape.wanted++] = static_cast<BlockId>(last_rows_[i]);
  }
  shape.gathered = !all_wanted || shape.rows != shape.wanted;
  shape.tiles = static_cast<int64_t>(tiles_.size());
  if (!shape.gathered && shape.decode_rows == shape.rows) {
    if (const auto graph = graphs_.lower_bound(shape.rows); graph != graphs_.end()) {
      for (; shape.rows < graph->first; ++shape.rows) {
        inputs_.tokens[shape.rows] = 0;
        inputs_.positions[shape.rows] = -1;
        inputs_.sequences[shape.rows] = 0;
      }
    }
  }
  std::copy(tiles_.begin(), tiles_.end(), inputs_.tiles);
  shape.tables = static_cast<int64_t>(batch.size());
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
  const CudaStepShape shape = WriteInputs(batch);
  BATON_RETURN_IF_ERROR(rank_->SendInputs(inputs_, shape));
  const auto graph = graphs_.find(shape.rows);
  if (!shape.gathered && shape.tiles == 0 && graph != graphs_.end() && shape.rows > 0) {
    BATON_RETURN_IF_ERROR(graph->second.Launch(rank_->stream()));
  } else {
    BATON_RETURN_IF_ERROR(rank_->EnqueueStep(shape));
  }
  if (shape.wanted > 0) {
    BATON_RETURN_IF_ERROR(
        rank_->stream().Copy(logits_.data(), rank_->logits(), shape.wanted * config.vocab * sizeof(float)));
  }
  BATON_RETURN_IF_ERROR(rank_->stream().Synchronize());
  float* next = logits_.as<float>();
  if (!logits.empty()) std::fill_n(logits.begin(), batch.size(), std::span<float>());
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!batch[i].needs_logits()) continue;
    const std::span<float> row(next, config.vocab);
    SampleRow(row, batch[i].samples);
    if (batch[i].wants_logits) logits[i] = row;
    next += config.vocab;
  }
  CountWork(batch);
  return absl::OkStatus();
}

void CudaRunner::CopyBlock(BlockId from, BlockId to) { rank_->CopyBlock(from, to); }
void CudaRunner::SwapOut(BlockId from, uint32_t slot) { rank_->SwapOut(from, slot); }
void CudaRunner::SwapIn(uint32_t slot, BlockId to) { rank_->SwapIn(slot, to); }

void CudaRunner::CountWork(std::span<const StepSequence> batch) {
  const model::ModelConfig& config = weights_->config;
  const uint64_t size = BlockOf(weights_->dtype).bytes;
  uint64_t rows = 0, wanted = 0, pairs = 0, kv_tokens = 0;
  for (const StepSequence& sequence : batch) {
    const uint64_t queries = sequence.tokens.size();
    rows += queries;
    wanted += sequence.needs_logits() ? 1 : 0;
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
