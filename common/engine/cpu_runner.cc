#include "common/engine/cpu_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <string>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/engine/kv_layout.h"
#include "common/engine/step_check.h"
#include "kernels/embedding.h"
#include "kernels/kv_store.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"

namespace baton {
namespace {

// Raised whenever a change to kernels or runner may change a bit of any result.
constexpr int kKernelVersion = 3;

// Floats of each of a step's buffers.
struct Activations {
  Activations(const model::ModelConfig& config, uint64_t rows, uint64_t sequences)
      : hidden(rows * config.hidden),
        normed(std::max(rows, sequences) * config.hidden),
        qkv(rows * Padded(config.q_rows() + 2 * config.kv_rows())),
        context(rows * config.q_rows()),
        delta(rows * Padded(config.hidden)),
        gate_up(rows * Padded(2 * int64_t{config.intermediate})),
        ffn(rows * config.intermediate),
        angles(rows * (config.head_dim / 2)),
        logits(sequences * Padded(config.vocab)) {}
  uint64_t Total() const { return hidden + normed + qkv + context + delta + gate_up + ffn + 2 * angles + logits; }

  static uint64_t Padded(int64_t outputs) { return static_cast<uint64_t>(cpu::PaddedToPanel(outputs)); }
  uint64_t hidden, normed, qkv, context, delta, gate_up, ffn;
  uint64_t angles;  // cosines, and as many sines
  uint64_t logits;
};

absl::Status CheckShapes(const model::ModelConfig& config, const KvLayout& layout, std::span<std::byte> pool) {
  if (layout.layers != config.layers || layout.kv_heads != config.kv_heads || layout.head_dim != config.head_dim) {
    return InvalidArgument("KV layout has %d layers, %d heads of %d; the model has %d, %d of %d", layout.layers,
                           layout.kv_heads, layout.head_dim, config.layers, config.kv_heads, config.head_dim);
  }
  if (layout.dtype != DType::kF32 && layout.dtype != DType::kF16 && layout.dtype != DType::kBF16 &&
      layout.dtype != DType::kI8) {
    return InvalidArgument("KV format %s: the CPU engine stores f32, f16, bf16 or int8", DTypeName(layout.dtype));
  }
  if (layout.key_order != KeyOrder::kByElement) return InvalidArgument("the CPU engine reads keys element by element");
  if (config.head_dim > cpu::kMaxHeadDim || config.head_dim % 2 != 0) {
    return InvalidArgument("head_dim is %d, the CPU engine takes even ones up to %d", config.head_dim,
                           cpu::kMaxHeadDim);
  }
  if (config.heads % config.kv_heads != 0 || config.heads / config.kv_heads > cpu::kMaxHeadGroup) {
    return InvalidArgument("%d heads share %d kv heads, the CPU engine takes whole groups of up to %d", config.heads,
                           config.kv_heads, cpu::kMaxHeadGroup);
  }
  if (layout.block_size == 0 || pool.size() % layout.BytesPerBlock() != 0) {
    return InvalidArgument("the pool's %d bytes are no whole number of blocks of %d bytes", pool.size(),
                           layout.block_size == 0 ? 0 : layout.BytesPerBlock());
  }
  if (reinterpret_cast<uintptr_t>(pool.data()) % 64 != 0) return InvalidArgument("the pool is not aligned to 64 bytes");
  return absl::OkStatus();
}

int64_t MaxInputs(const model::ModelConfig& config) {
  return std::max({config.hidden, config.intermediate, config.q_rows()});
}

}  // namespace

KvLayout MakeKvLayout(const model::ModelConfig& config, DType kv_dtype, uint32_t block_size) {
  return KvLayoutOf(config, kv_dtype, block_size, KeyOrder::kByElement);
}

absl::StatusOr<std::unique_ptr<CpuRunner>> CpuRunner::Create(std::shared_ptr<const CpuWeights> weights,
                                                             const KvLayout& layout, std::span<std::byte> pool,
                                                             const CpuRunnerOptions& options) {
  BATON_RETURN_IF_ERROR(CheckShapes(weights->config, layout, pool));
  if (options.max_step_tokens == 0 || options.max_batch == 0) {
    return InvalidArgument("a step takes %d tokens and %d sequences; both must be at least 1", options.max_step_tokens,
                           options.max_batch);
  }
  try {
    return std::unique_ptr<CpuRunner>(new CpuRunner(std::move(weights), layout, pool, options));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("no memory for the activations of a step of %d tokens and %d swapped blocks of %d bytes",
                             options.max_step_tokens, options.swap_slots, layout.BytesPerBlock());
  }
}

CpuRunner::CpuRunner(std::shared_ptr<const CpuWeights> weights, const KvLayout& layout, std::span<std::byte> pool,
                     const CpuRunnerOptions& options)
    : weights_(std::move(weights)),
      layout_(layout),
      pool_(pool),
      pool_blocks_(static_cast<uint32_t>(pool.size() / layout.BytesPerBlock())),
      options_(options),
      swap_(std::make_unique_for_overwrite<std::byte[]>(options.swap_slots * layout.BytesPerBlock())),
      threads_(options.threads, options.pin_threads),
      linear_(std::max(options.max_step_tokens, options.max_batch), MaxInputs(weights_->config), threads_.threads()),
      attention_(threads_.threads(), options.max_batch) {
  const Activations floats(weights_->config, options.max_step_tokens, options.max_batch);
  rows_.resize(options.max_step_tokens);
  sequences_.reserve(options.max_batch);
  sampled_rows_.reserve(options.max_batch);
  hidden_ = ZeroedFloats(floats.hidden);
  normed_ = ZeroedFloats(floats.normed);
  qkv_ = ZeroedFloats(floats.qkv);
  context_ = ZeroedFloats(floats.context);
  delta_ = ZeroedFloats(floats.delta);
  gate_up_ = ZeroedFloats(floats.gate_up);
  ffn_ = ZeroedFloats(floats.ffn);
  cosine_ = ZeroedFloats(floats.angles);
  sine_ = ZeroedFloats(floats.angles);
  logits_ = AlignedBuffer(floats.logits * sizeof(float));
}

uint64_t CpuRunner::ActivationBytes(const model::ModelConfig& config, const CpuRunnerOptions& options) {
  const int threads = ThreadPool::ThreadsOf(options.threads);
  const uint32_t rows = std::max(options.max_step_tokens, options.max_batch);
  return Activations(config, options.max_step_tokens, options.max_batch).Total() * sizeof(float) +
         options.max_step_tokens * sizeof(Row) +
         options.max_batch * (sizeof(cpu::AttentionSequence) + sizeof(SampledRow)) +
         cpu::LinearWorkspace::BytesFor(rows, MaxInputs(config), threads) +
         cpu::AttentionWorkspace::BytesFor(threads, options.max_batch);
}

template <typename Body>
void CpuRunner::ForRows(TaskRunner& team, int64_t rows, const Body& body) {
  const int64_t each = std::clamp<int64_t>(rows / (4 * team.threads()), 1, 8);
  team.Run((rows + each - 1) / each, [&](int64_t task, int) { body(task * each, std::min(rows, (task + 1) * each)); });
}

absl::Status CpuRunner::Step(std::span<const StepSequence> batch, std::span<std::span<float>> logits) {
  BATON_RETURN_IF_ERROR(CheckStep(batch, logits.size(), layout_,
                                  {.max_step_tokens = options_.max_step_tokens,
                                   .max_batch = options_.max_batch,
                                   .max_length = weights_->config.max_length,
                                   .vocab = weights_->config.vocab,
                                   .pool_blocks = pool_blocks_}));
  int64_t rows = PlaceRows(batch);
  threads_.RunTogether([&](TaskRunner& team) { Embed(team, rows); });
  const uint32_t layers = weights_->config.layers;
  for (uint32_t layer = 0; layer < layers && rows > 0; ++layer) {
    const bool last = layer + 1 == layers;
    if (last) {
      threads_.RunTogether([&](TaskRunner& team) { ProjectAndStore(team, layer, rows); });
      rows = KeepWantedRows(batch);
    }
    const cpu::AttentionCall attention = PlanAttention(layer);
    threads_.RunTogether([&](TaskRunner& team) {
      if (!last) ProjectAndStore(team, layer, rows);
      Attend(team, attention, layer, rows);
      FeedForward(team, layer, rows);
    });
  }
  ComputeLogits(batch, logits);
  CountWork(batch);
  return absl::OkStatus();
}

// Gives every token of the step its row; returns their number.
int64_t CpuRunner::PlaceRows(std::span<const StepSequence> batch) {
  sequences_.clear();
  int64_t row = 0;
  for (const StepSequence& sequence : batch) {
    sequences_.push_back({row, static_cast<int64_t>(sequence.tokens.size()), sequence.position, sequence.blocks});
    uint32_t position = sequence.position;
    for (const TokenId& token : sequence.tokens) {
      rows_[row++] = {&token, position, sequence.blocks[position / layout_.block_size]};
      ++position;
    }
  }
  return row;
}

// Embeddings in hidden_, angles of the rotary embedding, and the first layer's input in normed_.
void CpuRunner::Embed(TaskRunner& team, int64_t rows) {
  const model::ModelConfig& config = weights_->config;
  const int64_t pairs = config.head_dim / 2;
  ForRows(team, rows, [&](int64_t first, int64_t end) {
    for (int64_t row = first; row < end; ++row) {
      cpu::Embedding(weights_->embedding, {rows_[row].token, 1}, hidden_.floats() + row * config.hidden);
      cpu::RopeAngles(rows_[row].position, weights_->rope.inverse_frequencies.data(), pairs,
                      weights_->rope.attention_scale, cosine_.floats() + row * pairs, sine_.floats() + row * pairs);
    }
    cpu::RmsNorm(hidden_.floats() + first * config.hidden, config.hidden, weights_->layers[0].attention_norm,
                 config.rms_norm_eps, end - first, config.hidden, normed_.floats() + first * config.hidden,
                 config.hidden);
  });
}

// normed_ to queries in qkv_, and keys and values in the pool.
void CpuRunner::ProjectAndStore(TaskRunner& team, uint32_t layer, int64_t rows) {
  const CpuLayerWeights& weights = weights_->layers[layer];
  cpu::Linear(weights.qkv, weights.qkv_bias, normed_.floats(), weights_->config.hidden, rows, qkv_.floats(),
              cpu::PaddedToPanel(weights.qkv.outputs), linear_, team);
  ForRows(team, rows, [&](int64_t first, int64_t end) {
    for (int64_t row = first; row < end; ++row) RotateAndStore(layer, row);
  });
}

// Once the last layer's keys and values are stored, only rows whose logits are wanted matter: they move to the front.
int64_t CpuRunner::KeepWantedRows(std::span<const StepSequence> batch) {
  const int64_t hidden = weights_->config.hidden;
  const int64_t qkv_stride = cpu::PaddedToPanel(weights_->layers.back().qkv.outputs);
  int64_t wanted = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!batch[i].needs_logits()) continue;
    const cpu::AttentionSequence from = sequences_[i];
    const int64_t row = from.first_row + from.queries - 1;
    if (row != wanted) {  // rows move towards the front only, in order: none is overwritten before it has moved
      std::copy_n(hidden_.floats() + row * hidden, hidden, hidden_.floats() + wanted * hidden);
      std::copy_n(qkv_.floats() + row * qkv_stride, qkv_stride, qkv_.floats() + wanted * qkv_stride);
    }
    sequences_[wanted] = {wanted, 1, from.position + from.queries - 1, from.blocks};
    ++wanted;
  }
  sequences_.resize(wanted);
  return wanted;
}

cpu::AttentionCall CpuRunner::PlanAttention(uint32_t layer) {
  const model::ModelConfig& config = weights_->config;
  const cpu::AttentionShape shape{.kv_dtype = layout_.dtype,
                                  .heads = config.heads,
                                  .kv_heads = config.kv_heads,
                                  .head_dim = config.head_dim,
                                  .block_size = layout_.block_size,
                                  .head_stride = static_cast<int64_t>(layout_.HeadBytes()),
                                  .block_stride = static_cast<int64_t>(layout_.BytesPerBlock()),
                                  .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
                                  .window = config.windows.empty() ? 0 : config.windows[layer]};
  return {shape,
          sequences_,
          pool_.data() + layout_.HeadOffset(0, layer, 0, 0),
          pool_.data() + layout_.HeadOffset(0, layer, 1, 0),
          qkv_.floats(),
          cpu::PaddedToPanel(weights_->layers[layer].qkv.outputs),
          context_.floats(),
          config.q_rows(),
          attention_,
          threads_.threads()};
}

// Queries in qkv_ to delta_: what attention adds to the residual stream.
void CpuRunner::Attend(TaskRunner& team, const cpu::AttentionCall& attention, uint32_t layer, int64_t rows) {
  const model::ModelConfig& config = weights_->config;
  const CpuLayerWeights& weights = weights_->layers[layer];
  team.Run(attention.tasks(), [&](int64_t task, int worker) { attention.Run(task, worker); });
  cpu::Linear(weights.o, weights.o_bias, context_.floats(), config.q_rows(), rows, delta_.floats(),
              cpu::PaddedToPanel(config.hidden), linear_, team);
}

// One row's queries and keys rotated, keys and values in the pool.
void CpuRunner::RotateAndStore(uint32_t layer, int64_t row) {
  const model::ModelConfig& config = weights_->config;
  const CpuLayerWeights& weights = weights_->layers[layer];
  const int64_t head_dim = config.head_dim;
  const int64_t pairs = head_dim / 2;
  float* q = qkv_.floats() + row * cpu::PaddedToPanel(weights.qkv.outputs);
  float* k = q + config.q_rows();
  float* v = k + config.kv_rows();
  if (weights.q_norm != nullptr) {
    cpu::RmsNorm(q, head_dim, weights.q_norm, config.rms_norm_eps, config.heads, head_dim, q, head_dim);
    cpu::RmsNorm(k, head_dim, weights.k_norm, config.rms_norm_eps, config.kv_heads, head_dim, k, head_dim);
  }
  // Heads of q and k lie one behind the other.
  cpu::Rope(cosine_.floats() + row * pairs, sine_.floats() + row * pairs, config.heads + config.kv_heads, head_dim, q);
  const cpu::KvSlot slot{.dtype = layout_.dtype,
                         .head_dim = head_dim,
                         .block_size = layout_.block_size,
                         .head_stride = static_cast<int64_t>(layout_.HeadBytes()),
                         .slot = rows_[row].position % layout_.block_size};
  cpu::StoreKeys(slot, k, config.kv_heads, pool_.data() + layout_.HeadOffset(rows_[row].block, layer, 0, 0));
  cpu::StoreValues(slot, v, config.kv_heads, pool_.data() + layout_.HeadOffset(rows_[row].block, layer, 1, 0));
}

// delta_ of attention to the residual stream with both half layers added, and normed_ for what follows.
void CpuRunner::FeedForward(TaskRunner& team, uint32_t layer, int64_t rows) {
  const model::ModelConfig& config = weights_->config;
  const CpuLayerWeights& weights = weights_->layers[layer];
  const int64_t hidden = config.hidden;
  const int64_t intermediate = config.intermediate;
  const int64_t delta_stride = cpu::PaddedToPanel(hidden);
  const int64_t gate_up_stride = cpu::PaddedToPanel(weights.gate_up.outputs);
  const auto add_and_norm = [&](const float* norm) {
    ForRows(team, rows, [&](int64_t first, int64_t end) {
      cpu::AddRmsNorm(hidden_.floats() + first * hidden, delta_.floats() + first * delta_stride, delta_stride, norm,
                      config.rms_norm_eps, end - first, hidden, normed_.floats() + first * hidden);
    });
  };
  add_and_norm(weights.ffn_norm);
  cpu::Linear(weights.gate_up, nullptr, normed_.floats(), hidden, rows, gate_up_.floats(), gate_up_stride, linear_,
              team);
  // Pieces of a row: a single one keeps all threads busy, too.
  constexpr int64_t kPiece = 1024;
  const int64_t pieces = (intermediate + kPiece - 1) / kPiece;
  team.Run(rows * pieces, [&](int64_t task, int) {
    const int64_t row = task / pieces, first = task % pieces * kPiece;
    const float* gate = gate_up_.floats() + row * gate_up_stride + first;
    cpu::SwiGlu(gate, gate + intermediate, std::min(kPiece, intermediate - first),
                ffn_.floats() + row * intermediate + first);
  });
  cpu::Linear(weights.down, nullptr, ffn_.floats(), intermediate, rows, delta_.floats(), delta_stride, linear_, team);
  const bool last = layer + 1 == config.layers;
  add_and_norm(last ? weights_->final_norm : weights_->layers[layer + 1].attention_norm);
}

// Logits where they are needed, and the tokens drawn from them: a task for each row.
void CpuRunner::ComputeLogits(std::span<const StepSequence> batch, std::span<std::span<float>> logits) {
  const int64_t hidden = weights_->config.hidden;
  const int64_t stride = cpu::PaddedToPanel(weights_->config.vocab);
  sampled_rows_.clear();
  int64_t wanted = 0;
  if (!logits.empty()) std::fill_n(logits.begin(), batch.size(), std::span<float>());
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!batch[i].needs_logits()) continue;
    const std::span<float> row(logits_.floats() + wanted * stride, weights_->config.vocab);
    if (batch[i].wants_logits) logits[i] = row;
    if (!batch[i].samples.empty()) sampled_rows_.push_back({row, batch[i].samples});
    ++wanted;
  }
  threads_.RunTogether([&](TaskRunner& team) {
    cpu::Linear(weights_->lm_head, nullptr, normed_.floats(), hidden, wanted, logits_.floats(), stride, linear_, team);
    team.Run(static_cast<int64_t>(sampled_rows_.size()),
             [&](int64_t i, int) { SampleRow(sampled_rows_[i].logits, sampled_rows_[i].samples); });
  });
}

void CpuRunner::CountWork(std::span<const StepSequence> batch) {
  const model::ModelConfig& config = weights_->config;
  const uint64_t kv_token = layout_.BytesPerToken();
  uint64_t rows = 0, logits = 0, pairs = 0, last_pairs = 0, kv_bytes = 0;
  for (const StepSequence& sequence : batch) {
    const uint64_t queries = sequence.tokens.size();
    rows += queries;
    logits += sequence.needs_logits() ? 1 : 0;
    last_pairs += sequence.needs_logits() ? sequence.position + queries : 0;
    pairs += queries * sequence.position + queries * (queries + 1) / 2;
    kv_bytes += kv_token * (sequence.position + 2 * queries);  // read once, the new ones written too
  }
  const auto parameters = [](const cpu::PanelMatrix& matrix) {
    return static_cast<uint64_t>(matrix.outputs * matrix.inputs);
  };
  uint64_t multiplied = logits * parameters(weights_->lm_head), layer_bytes = 0;
  for (const CpuLayerWeights& layer : weights_->layers) {
    // The last layer's attention and feed-forward run for the wanted rows only.
    const bool last = &layer == &weights_->layers.back();
    multiplied += rows * parameters(layer.qkv) +
                  (last ? logits : rows) * (parameters(layer.o) + parameters(layer.gate_up) + parameters(layer.down));
    layer_bytes += layer.qkv.bytes() + layer.o.bytes() + layer.gate_up.bytes() + layer.down.bytes();
  }
  work_.flops = 2 * multiplied + 4 * config.q_rows() * (pairs * (config.layers - 1) + last_pairs);
  work_.bytes = rows == 0 ? 0 : layer_bytes + (logits > 0 ? weights_->lm_head.bytes() : 0) + kv_bytes;
}

void CpuRunner::CopyBlock(BlockId from, BlockId to) {
  BATON_CHECK(from < pool_blocks_ && to < pool_blocks_);
  const uint64_t bytes = layout_.BytesPerBlock();
  std::memcpy(pool_.data() + to * bytes, pool_.data() + from * bytes, bytes);
}

void CpuRunner::SwapOut(BlockId from, uint32_t slot) {
  BATON_CHECK(from < pool_blocks_ && slot < options_.swap_slots);
  const size_t bytes = layout_.BytesPerBlock();
  std::memcpy(swap_.get() + slot * bytes, pool_.data() + from * bytes, bytes);
}

void CpuRunner::SwapIn(uint32_t slot, BlockId to) {
  BATON_CHECK(to < pool_blocks_ && slot < options_.swap_slots);
  const size_t bytes = layout_.BytesPerBlock();
  std::memcpy(pool_.data() + to * bytes, swap_.get() + slot * bytes, bytes);
}

NumericsHash CpuRunner::numerics_hash() const {
  const model::RopeTable& rope = weights_->rope;
  Hash128 hash =
      HashText("cpu engine, kernels " + std::to_string(kKernelVersion) + ", tensor parallel 1", weights_->identity);
  hash = HashBytes(std::as_bytes(std::span(rope.inverse_frequencies)), hash);
  hash = HashBytes(std::as_bytes(std::span(&rope.attention_scale, 1)), hash);
  return NumericsHash{hash.low};
}

}  // namespace baton
