#include "common/engine/cuda_runner.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/device/device.h"
#include "common/engine/kv_layout.h"
#include "common/engine/step_check.h"

namespace baton {
namespace {

// Raised whenever a change to kernels or runner may change a bit of any result.
constexpr int kKernelVersion = 2;

absl::Status CheckRanks(const std::vector<std::shared_ptr<const CudaWeights>>& shards, const KvLayout& layout,
                        const std::vector<std::span<std::byte>>& pools) {
  if (shards.empty() || pools.size() != shards.size()) {
    return InvalidArgument("%d shards of weights and %d pools", shards.size(), pools.size());
  }
  const uint64_t block_bytes = layout.BytesPerBlock() / shards.size();
  for (size_t rank = 0; rank < shards.size(); ++rank) {
    const CudaShard& shard = shards[rank]->shard;
    if (shard.rank != rank || shard.ranks != shards.size() || shards[rank]->identity != shards[0]->identity) {
      return InvalidArgument("the weights for rank %d of %d are those of rank %d of %d, or of another model", rank,
                             shards.size(), shard.rank, shard.ranks);
    }
    if (block_bytes == 0 || pools[rank].size() % block_bytes != 0 || pools[rank].size() != pools[0].size()) {
      return InvalidArgument("rank %d's pool of %d bytes is no whole number of blocks of %d bytes, or not as rank 0's",
                             rank, pools[rank].size(), block_bytes);
    }
    if (reinterpret_cast<uintptr_t>(pools[rank].data()) % 16 != 0) {
      return InvalidArgument("rank %d's pool is not aligned to 16 bytes", rank);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShapes(const CudaWeights& weights, const KvLayout& layout) {
  const model::ModelConfig& config = weights.config;
  if (layout.layers != config.layers || layout.kv_heads != config.kv_heads || layout.head_dim != config.head_dim) {
    return InvalidArgument("KV layout has %d layers, %d heads of %d; the model has %d, %d of %d", layout.layers,
                           layout.kv_heads, layout.head_dim, config.layers, config.kv_heads, config.head_dim);
  }
  if (layout.key_order != KeyOrder::kBySlot) {
    return InvalidArgument("keys lie element by element; the CUDA engine reads them slot by slot");
  }
  if (!CudaStoresKv(layout.dtype, weights.dtype)) {
    return InvalidArgument(
        "KV format %s, weights %s: the CUDA engine stores KV in the weights' format or, of f16 and "
        "bf16, as fp8",
        DTypeName(layout.dtype), DTypeName(weights.dtype));
  }
  if (config.head_dim % 8 != 0 || config.head_dim > 256 || config.hidden % 8 != 0 || config.intermediate % 8 != 0) {
    return InvalidArgument(
        "head_dim %d, hidden %d, intermediate %d: the CUDA engine takes multiples of 8, head_dim up to 256",
        config.head_dim, config.hidden, config.intermediate);
  }
  return absl::OkStatus();
}

// Of prefill attention, at most.
uint64_t MaxTiles(const model::ModelConfig& config, const CudaRunnerOptions& options) {
  const uint64_t group = config.heads / config.kv_heads;
  return options.max_step_tokens * group / cuda::kPrefillRows + options.max_batch + 1;
}

CudaStepLimits LimitsOf(const model::ModelConfig& config, const KvLayout& layout, const CudaRunnerOptions& options) {
  return {.rows = std::max(options.max_step_tokens, options.max_batch),
          .batch = options.max_batch,
          .tiles = MaxTiles(config, options),
          .table_stride = static_cast<int32_t>(layout.BlocksFor(config.max_length))};
}

}  // namespace

uint64_t CudaRunner::ActivationBytes(const std::shared_ptr<const CudaWeights>& first_shard, const KvLayout& layout,
                                     const CudaRunnerOptions& options) {
  const model::ModelConfig& config = first_shard->config;
  return CudaRank::ActivationBytes(first_shard, LayoutOfRank(layout, first_shard->shard.ranks), options,
                                   LimitsOf(config, layout, options)) +
         CudaSampler::DeviceBytes(config.vocab, options.max_batch);
}

absl::StatusOr<std::unique_ptr<CudaRunner>> CudaRunner::Create(std::shared_ptr<const CudaWeights> weights,
                                                               const KvLayout& layout, std::span<std::byte> pool,
                                                               const CudaRunnerOptions& options) {
  return Make({std::move(weights)}, layout, {pool}, nullptr, options);
}

absl::StatusOr<std::unique_ptr<CudaRunner>> CudaRunner::Create(std::vector<std::shared_ptr<const CudaWeights>> shards,
                                                               CudaPool& pool, const CudaRunnerOptions& options) {
  std::vector<std::span<std::byte>> memory;
  for (size_t rank = 0; rank < pool.ranks(); ++rank) memory.push_back(pool.rank_memory(rank));
  return Make(std::move(shards), pool.layout(), std::move(memory), &pool, options);
}

bool CudaStoresKv(DType kv, DType weights) {
  return kv == weights || (kv == DType::kF8 && (weights == DType::kF16 || weights == DType::kBF16));
}

KvLayout CudaKvLayout(const model::ModelConfig& config, DType kv_dtype, uint32_t block_size) {
  return KvLayoutOf(config, kv_dtype, block_size, KeyOrder::kBySlot);
}

absl::StatusOr<std::unique_ptr<CudaRunner>> CudaRunner::Create(std::vector<std::shared_ptr<const CudaWeights>> shards,
                                                               const KvLayout& layout,
                                                               std::vector<std::span<std::byte>> pools,
                                                               const CudaRunnerOptions& options) {
  return Make(std::move(shards), layout, std::move(pools), nullptr, options);
}

absl::StatusOr<std::unique_ptr<CudaRunner>> CudaRunner::Make(std::vector<std::shared_ptr<const CudaWeights>> shards,
                                                             const KvLayout& layout,
                                                             std::vector<std::span<std::byte>> pools, CudaPool* pool,
                                                             const CudaRunnerOptions& options) {
  if (!shards.empty()) BATON_RETURN_IF_ERROR(CheckShapes(*shards.front(), layout));
  BATON_RETURN_IF_ERROR(CheckRanks(shards, layout, pools));
  if (options.max_step_tokens == 0 || options.max_batch == 0) {
    return InvalidArgument("a step takes %d tokens and %d sequences; both must be at least 1", options.max_step_tokens,
                           options.max_batch);
  }
  std::unique_ptr<CudaRunner> runner(new CudaRunner(std::move(shards), layout, std::move(pools), pool, options));
  BATON_RETURN_IF_ERROR(runner->Start());
  return runner;
}

CudaRunner::CudaRunner(std::vector<std::shared_ptr<const CudaWeights>> shards, const KvLayout& layout,
                       std::vector<std::span<std::byte>> pools, CudaPool* pool, const CudaRunnerOptions& options)
    : shards_(std::move(shards)),
      layout_(layout),
      pools_(std::move(pools)),
      pool_(pool),
      options_(options),
      limits_(LimitsOf(weights().config, layout, options)) {}

absl::Status CudaRunner::Start() {
  const auto allocate = [](device::Memory& memory, uint64_t bytes) {
    auto allocated = device::Memory::Allocate(device::MemoryKind::kPinned, bytes);
    if (allocated.ok()) memory = *std::move(allocated);
    return allocated.status();
  };
  BATON_RETURN_IF_ERROR(allocate(input_memory_, CudaStepInputs::In(nullptr, limits_).bytes));
  inputs_ = CudaStepInputs::In(input_memory_.data(), limits_);
  tiles_.reserve(limits_.tiles);
  last_rows_.resize(options_.max_batch);
  const KvLayout of_rank = LayoutOfRank(layout_, ranks());
  for (size_t rank = 0; rank < ranks(); ++rank) {
    BATON_RETURN_IF_ERROR(device::Use(shards_[rank]->device));
    BATON_ASSIGN_OR_RETURN(auto made, CudaRank::Create(shards_[rank], of_rank, pools_[rank], options_, limits_));
    ranks_.push_back(std::move(made));
  }
  if (ranks() > 1) BATON_RETURN_IF_ERROR(ConnectRanks());
  if (options_.graphs) BATON_RETURN_IF_ERROR(RecordGraphs());
  BATON_RETURN_IF_ERROR(device::Use(ranks_.front()->device()));
  BATON_ASSIGN_OR_RETURN(sampler_, CudaSampler::Create(vocab_size(), options_.max_batch));
  return absl::OkStatus();
}

// The first exchange also makes NCCL allocate what a graph could not.
absl::Status CudaRunner::ConnectRanks() {
  std::vector<int> devices;
  for (const auto& rank : ranks_) devices.push_back(rank->device());
  BATON_ASSIGN_OR_RETURN(collectives_, CudaCollectives::Connect(devices));
  BATON_RETURN_IF_ERROR(OnEachRank([&](CudaRank& rank) {
    added_parts_.push_back(rank.added_part());
    logits_parts_.push_back(rank.logits_part());
    BATON_ASSIGN_OR_RETURN(device::Event end, device::Event::Create());
    ends_.push_back(std::move(end));
    return absl::OkStatus();
  }));
  absl::Status status = ExchangeParts(1);
  if (status.ok()) status = ExchangeLogits(1);
  if (status.ok()) status = Wait();
  if (!status.ok()) GiveUp(status);
  return status;
}

absl::Status CudaRunner::RecordGraphs() {
  std::vector<const device::Stream*> streams;
  for (const auto& rank : ranks_) streams.push_back(&rank->stream());
  // All of it padding.
  std::fill_n(inputs_.tokens, options_.max_batch, TokenId{0});
  std::fill_n(inputs_.positions, options_.max_batch, -1);
  std::fill_n(inputs_.sequences, options_.max_batch, 0);
  // Powers of two up to 16, then steps of 16: at most a third of a batch is padding, and there are few graphs.
  for (int64_t rows = 1;; rows = rows < 16 ? rows * 2 : rows + 16) {
    const CudaStepShape shape{.rows = std::min<int64_t>(rows, options_.max_batch),
                              .decode_rows = std::min<int64_t>(rows, options_.max_batch),
                              .wanted = std::min<int64_t>(rows, options_.max_batch),
                              .max_length = weights().config.max_length};
    // Once by hand: what CUDA and cuBLASLt load and allocate when they first run a kernel must not fall into a
    // recording.
    BATON_RETURN_IF_ERROR(OnEachRank([&](CudaRank& rank) { return rank.SendInputs(inputs_, shape); }));
    BATON_RETURN_IF_ERROR(EnqueueStep(shape));
    BATON_RETURN_IF_ERROR(Wait());
    BATON_ASSIGN_OR_RETURN(auto graphs, device::Graph::Record(streams, [&] { return EnqueueStep(shape); }));
    graphs_.emplace(shape.rows, std::move(graphs));
    if (rows >= options_.max_batch) return absl::OkStatus();
  }
}

CudaStepShape CudaRunner::WriteInputs(std::span<const StepSequence> batch) {
  const bool prefill = ranks_.front()->takes_prefill();
  const auto group = static_cast<int32_t>(weights().config.heads / weights().config.kv_heads);
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
  const model::ModelConfig& config = weights().config;
  BATON_RETURN_IF_ERROR(broken_);
  BATON_RETURN_IF_ERROR(CheckStep(batch, logits.size(), layout_,
                                  {.max_step_tokens = options_.max_step_tokens,
                                   .max_batch = options_.max_batch,
                                   .max_length = config.max_length,
                                   .vocab = config.vocab,
                                   .pool_blocks = pool_blocks()}));
  const absl::Status ran = Run(batch, logits);
  if (!ran.ok()) {
    GiveUp(ran);
    return ran;
  }
  CountWork(batch);
  return absl::OkStatus();
}

absl::Status CudaRunner::Run(std::span<const StepSequence> batch, std::span<std::span<float>> logits) {
  const CudaStepShape shape = WriteInputs(batch);
  BATON_RETURN_IF_ERROR(OnEachRank([&](CudaRank& rank) { return rank.SendInputs(inputs_, shape); }));
  const auto graphs = graphs_.find(shape.rows);
  if (!shape.gathered && shape.tiles == 0 && graphs != graphs_.end() && shape.rows > 0) {
    auto graph = graphs->second.begin();
    BATON_RETURN_IF_ERROR(OnEachRank([&](CudaRank& rank) { return (graph++)->Launch(rank.stream()); }));
  } else {
    BATON_RETURN_IF_ERROR(EnqueueStep(shape));
  }
  BATON_RETURN_IF_ERROR(RecordStep());
  const CudaRank& first = *ranks_.front();
  BATON_RETURN_IF_ERROR(device::Use(first.device()));
  BATON_RETURN_IF_ERROR(sampler_->Enqueue(batch, first.logits(), first.stream(), [&] {
    BATON_RETURN_IF_ERROR(Wait());
    return device::Use(first.device());
  }));
  BATON_RETURN_IF_ERROR(ReadLogits(batch, shape.wanted, logits));
  BATON_RETURN_IF_ERROR(Wait());
  sampler_->Finish();
  return absl::OkStatus();
}

absl::Status CudaRunner::ReadLogits(std::span<const StepSequence> batch, int64_t rows,
                                    std::span<std::span<float>> logits) {
  if (!logits.empty()) std::fill_n(logits.begin(), batch.size(), std::span<float>());
  if (std::none_of(batch.begin(), batch.end(), [](const StepSequence& sequence) { return sequence.wants_logits; })) {
    return absl::OkStatus();
  }
  const uint64_t vocab = vocab_size();
  if (logits_.size() == 0) {
    BATON_ASSIGN_OR_RETURN(
        logits_, device::Memory::Allocate(device::MemoryKind::kPinned, options_.max_batch * vocab * sizeof(float)));
  }
  float* row = logits_.as<float>();
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].wants_logits) logits[i] = {row, vocab};
    if (batch[i].needs_logits()) row += vocab;
  }
  const CudaRank& first = *ranks_.front();
  return first.stream().Copy(logits_.data(), first.logits(), static_cast<uint64_t>(rows) * vocab * sizeof(float));
}

absl::Status CudaRunner::RecordStep() {
  for (size_t rank = 0; pool_ != nullptr && rank < ranks_.size(); ++rank) {
    BATON_RETURN_IF_ERROR(pool_->RecordStep(rank, ranks_[rank]->stream()));
  }
  return absl::OkStatus();
}

template <typename Enqueue>
absl::Status CudaRunner::OnEachRank(const Enqueue& enqueue) {
  for (const auto& rank : ranks_) {
    BATON_RETURN_IF_ERROR(device::Use(rank->device()));
    BATON_RETURN_IF_ERROR(enqueue(*rank));
  }
  return absl::OkStatus();
}

absl::Status CudaRunner::EnqueueStep(const CudaStepShape& shape) {
  if (shape.rows == 0) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(OnEachRank([&](CudaRank& rank) { return rank.EnqueueEmbedding(shape); }));
  for (uint32_t layer = 0; layer < weights().config.layers; ++layer) {
    BATON_RETURN_IF_ERROR(OnEachRank([&](CudaRank& rank) { return rank.EnqueueAttentionHalf(layer, shape); }));
    BATON_RETURN_IF_ERROR(ExchangeParts(shape.rows));
    BATON_RETURN_IF_ERROR(OnEachRank([&](CudaRank& rank) { return rank.EnqueueFeedForwardHalf(layer, shape); }));
    BATON_RETURN_IF_ERROR(ExchangeParts(shape.rows));
  }
  if (shape.wanted == 0) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(OnEachRank([&](CudaRank& rank) { return rank.EnqueueHead(shape); }));
  return ExchangeLogits(shape.head_rows());
}

absl::Status CudaRunner::ExchangeParts(int64_t rows) {
  if (ranks() == 1) return absl::OkStatus();
  const uint64_t count = static_cast<uint64_t>(rows) * weights().config.hidden;
  return options_.deterministic ? collectives_->AllGather(added_parts_, count)
                                : collectives_->AllReduce(added_parts_, count);
}

absl::Status CudaRunner::ExchangeLogits(int64_t rows) {
  if (ranks() == 1) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(
      collectives_->AllGather(logits_parts_, static_cast<uint64_t>(rows) * VocabPerRank(weights().config, ranks())));
  return ranks_.front()->MergeLogits(rows);
}

absl::Status CudaRunner::Wait() {
  if (ranks() == 1) return ranks_.front()->stream().Synchronize();
  size_t next = 0;
  BATON_RETURN_IF_ERROR(OnEachRank([&](CudaRank& rank) { return rank.stream().Record(ends_[next++]); }));
  // Waiting for one rank would not see that another has failed, for which it waits.
  for (size_t reached = 0; reached < ranks_.size(); std::this_thread::yield()) {
    BATON_RETURN_IF_ERROR(collectives_->Error());
    reached = 0;
    for (const device::Event& end : ends_) {
      BATON_ASSIGN_OR_RETURN(const bool there, end.Reached());
      reached += there ? 1 : 0;
    }
  }
  return absl::OkStatus();
}

void CudaRunner::GiveUp(const absl::Status& error) {
  if (ranks() == 1) return;
  broken_ = error;
  graphs_.clear();  // or NCCL would wait for them
  collectives_->Abort();
  for (const auto& rank : ranks_) rank->stream().Synchronize().IgnoreError();
}

// An error comes out of the next step.
template <typename Move>
void CudaRunner::MoveBlocks(const Move& move) {
  for (const auto& rank : ranks_) move(*rank);
  RecordStep().IgnoreError();
}

void CudaRunner::CopyBlock(BlockId from, BlockId to) {
  MoveBlocks([&](CudaRank& rank) { rank.CopyBlock(from, to); });
}
void CudaRunner::SwapOut(BlockId from, uint32_t slot) {
  MoveBlocks([&](CudaRank& rank) { rank.SwapOut(from, slot); });
}
void CudaRunner::SwapIn(uint32_t slot, BlockId to) {
  MoveBlocks([&](CudaRank& rank) { rank.SwapIn(slot, to); });
}

void CudaRunner::CountWork(std::span<const StepSequence> batch) {
  const model::ModelConfig& config = weights().config;
  const uint64_t size = BlockOf(weights().dtype).bytes;
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
  const model::RopeTable& rope = weights().rope;
  Hash128 hash =
      HashText("cuda engine, kernels " + std::to_string(kKernelVersion) +
                   (options_.deterministic ? ", deterministic" : "") + ", tensor parallel " + std::to_string(ranks()),
               weights().identity);
  hash = HashBytes(std::as_bytes(std::span(rope.inverse_frequencies)), hash);
  hash = HashBytes(std::as_bytes(std::span(&rope.attention_scale, 1)), hash);
  return NumericsHash{hash.low};
}

}  // namespace baton
