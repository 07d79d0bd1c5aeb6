#include "tests/gpu/attention_bench.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "kernels/cuda/decode_attention.h"
#include "kernels/cuda/prefill_attention.h"

namespace baton {
namespace {

using device::Memory;
using device::MemoryKind;

// Calls enqueued before a wait, so that the host's part of a launch does not show.
constexpr int kAtOnce = 20;

template <typename T>
absl::StatusOr<Memory> Upload(const device::Stream& stream, const std::vector<T>& values) {
  BATON_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(MemoryKind::kDevice, values.size() * sizeof(T)));
  BATON_RETURN_IF_ERROR(stream.Copy(memory.data(), values.data(), values.size() * sizeof(T)));
  return memory;
}

std::vector<BlockId> Side(const std::vector<std::vector<BlockId>>& tables) {
  std::vector<BlockId> all;
  for (const std::vector<BlockId>& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

// Queries and outputs of `rows` rows; what lies there is of no interest, but for its not being NaN.
absl::StatusOr<Memory> Activations(const BenchEngine& engine, uint64_t rows) {
  const uint64_t bytes = rows * (engine.weights().config.q_rows() + 2 * engine.weights().config.kv_rows()) * 2;
  BATON_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(MemoryKind::kDevice, bytes));
  BATON_RETURN_IF_ERROR(engine.stream().Fill(memory.data(), 0x3d, bytes));
  return memory;
}

}  // namespace

absl::StatusOr<double> DecodeAttentionSeconds(const BenchEngine& engine,
                                              const std::vector<std::vector<BlockId>>& tables, uint32_t context) {
  const model::ModelConfig& config = engine.weights().config;
  const device::Stream& stream = engine.stream();
  const uint64_t rows = tables.size();
  std::vector<int32_t> of_rows(rows);
  for (uint64_t i = 0; i < rows; ++i) of_rows[i] = static_cast<int32_t>(i);
  BATON_ASSIGN_OR_RETURN(const Memory positions, Upload(stream, std::vector<int32_t>(rows, context)));
  BATON_ASSIGN_OR_RETURN(const Memory sequences, Upload(stream, of_rows));
  BATON_ASSIGN_OR_RETURN(const Memory table, Upload(stream, Side(tables)));
  BATON_ASSIGN_OR_RETURN(const Memory queries, Activations(engine, rows));
  BATON_ASSIGN_OR_RETURN(const Memory out, Activations(engine, rows));
  const cuda::DecodeAttentionShape shape{.heads = static_cast<int32_t>(config.heads),
                                         .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
                                         .max_length = config.max_length,  // as in a graph
                                         .q_stride = config.q_rows() + 2 * int64_t{config.kv_rows()}};
  BATON_ASSIGN_OR_RETURN(
      const Memory workspace,
      Memory::Allocate(MemoryKind::kDevice,
                       cuda::DecodeAttentionWorkspace(shape, static_cast<int32_t>(config.head_dim), rows)));
  const cuda::PagedRows paged{positions.as<int32_t>(), sequences.as<int32_t>(), table.as<BlockId>(),
                              static_cast<int32_t>(tables[0].size())};
  uint32_t layer = 0;
  return SecondsOf(stream, {engine.shape().rounds.rounds, engine.shape().rounds.seconds, kAtOnce}, [&] {
    const cuda::Error error =
        cuda::DecodeAttention(shape, engine.Kv(layer++ % config.layers), paged, static_cast<int64_t>(rows),
                              queries.data(), out.data(), workspace.data(), stream.get());
    return device::ToStatus(static_cast<int>(error), "enqueueing attention");
  });
}

absl::StatusOr<double> PrefillAttentionSeconds(const BenchEngine& engine, const std::vector<BlockId>& table,
                                               uint32_t length) {
  const model::ModelConfig& config = engine.weights().config;
  const device::Stream& stream = engine.stream();
  std::vector<cuda::PrefillTile> tiles;
  cuda::AppendPrefillTiles(0, 0, static_cast<int32_t>(length), 0, static_cast<int32_t>(config.heads / config.kv_heads),
                           tiles);
  BATON_ASSIGN_OR_RETURN(const Memory tile, Upload(stream, tiles));
  BATON_ASSIGN_OR_RETURN(const Memory blocks, Upload(stream, table));
  BATON_ASSIGN_OR_RETURN(const Memory queries, Activations(engine, length));
  BATON_ASSIGN_OR_RETURN(const Memory out, Activations(engine, length));
  const cuda::PrefillAttentionShape shape{.heads = static_cast<int32_t>(config.heads),
                                          .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
                                          .q_stride = config.q_rows() + 2 * int64_t{config.kv_rows()}};
  uint32_t layer = 0;
  return SecondsOf(stream, {engine.shape().rounds.rounds, engine.shape().rounds.seconds, 4}, [&] {
    const cuda::Error error = cuda::PrefillAttention(
        shape, engine.Kv(layer++ % config.layers), blocks.as<BlockId>(), static_cast<int32_t>(table.size()),
        tile.as<cuda::PrefillTile>(), static_cast<int64_t>(tiles.size()), queries.data(), out.data(), stream.get());
    return device::ToStatus(static_cast<int>(error), "enqueueing attention");
  });
}

}  // namespace baton
