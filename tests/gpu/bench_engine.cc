#include "tests/gpu/bench_engine.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "common/base/status.h"
#include "common/model/shapes.h"
#include "tests/gpu/shaped_model.h"

namespace baton {

absl::Status FillRandom(const device::Stream& stream, const device::Memory& memory) {
  constexpr uint64_t kPiece = uint64_t{16} << 20;
  const uint64_t bytes = memory.size();
  BATON_ASSIGN_OR_RETURN(const device::Memory pinned,
                         device::Memory::Allocate(device::MemoryKind::kPinned, std::min(bytes, kPiece)));
  std::mt19937 random(1);
  for (uint16_t& value : pinned.span<uint16_t>()) {
    value = BF16FromF32(static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f);
  }
  for (uint64_t first = 0; first < bytes; first += kPiece) {
    BATON_RETURN_IF_ERROR(stream.Copy(memory.data() + first, pinned.data(), std::min(kPiece, bytes - first)));
  }
  return stream.Synchronize();
}

absl::StatusOr<std::unique_ptr<BenchEngine>> BenchEngine::Start(const BenchShape& shape) {
  auto engine = std::make_unique<BenchEngine>();
  engine->shape_ = shape;
  BATON_ASSIGN_OR_RETURN(engine->device_, device::Open(0));
  BATON_ASSIGN_OR_RETURN(engine->stream_, device::Stream::Create());
  const auto start = std::chrono::steady_clock::now();
  BATON_ASSIGN_OR_RETURN(const model::ModelConfig config, model::FindShape(shape.model));
  const auto threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  BATON_ASSIGN_OR_RETURN(const auto model, MakeShapedModel(config, 1, DType::kBF16, threads));
  BATON_ASSIGN_OR_RETURN(engine->weights_, LoadCudaWeights(*model, DType::kBF16, engine->stream_));
  engine->load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  engine->layout_ = CudaKvLayout(config, DType::kBF16);
  uint32_t blocks = 1;
  for (const uint32_t batch : shape.batches) {
    blocks = std::max(blocks, batch * engine->layout_.BlocksFor(shape.context + 1));
  }
  for (const uint32_t length : shape.lengths) blocks = std::max(blocks, engine->layout_.BlocksFor(length));
  engine->blocks_ = blocks;
  const uint64_t bytes = blocks * engine->layout_.BytesPerBlock();
  BATON_ASSIGN_OR_RETURN(engine->pool_, device::Memory::Allocate(device::MemoryKind::kDevice, bytes));
  BATON_RETURN_IF_ERROR(FillRandom(engine->stream_, engine->pool_));
  return engine;
}

absl::StatusOr<std::unique_ptr<CudaRunner>> BenchEngine::NewRunner(bool graphs, uint32_t max_step_tokens) const {
  const uint32_t batch = shape_.batches.empty() ? 1 : *std::max_element(shape_.batches.begin(), shape_.batches.end());
  return CudaRunner::Create(
      weights_, layout_, {pool_.data(), pool_.size()},
      {.max_step_tokens = std::max(max_step_tokens, batch), .max_batch = batch, .graphs = graphs});
}

absl::StatusOr<std::vector<std::vector<BlockId>>> BenchEngine::Tables(uint32_t sequences, uint32_t length) const {
  const uint32_t each = layout_.BlocksFor(length);
  if (uint64_t{sequences} * each > blocks_) {
    return InvalidArgument("%d sequences of %d blocks; the pool has %d", sequences, each, blocks_);
  }
  std::vector<BlockId> ids(blocks_);
  std::iota(ids.begin(), ids.end(), BlockId{0});
  std::shuffle(ids.begin(), ids.end(), std::mt19937(1));
  std::vector<std::vector<BlockId>> tables;
  for (uint32_t i = 0; i < sequences; ++i) tables.emplace_back(ids.begin() + i * each, ids.begin() + (i + 1) * each);
  return tables;
}

cuda::PagedKv BenchEngine::Kv(uint32_t layer) const {
  return {.dtype = layout_.dtype,
          .keys = pool_.data() + layout_.HeadOffset(0, layer, 0, 0),
          .values = pool_.data() + layout_.HeadOffset(0, layer, 1, 0),
          .kv_heads = static_cast<int32_t>(layout_.kv_heads),
          .head_dim = static_cast<int32_t>(layout_.head_dim),
          .block_size = static_cast<int32_t>(layout_.block_size),
          .block_stride = static_cast<int64_t>(layout_.BytesPerBlock() / BlockOf(layout_.dtype).bytes)};
}

}  // namespace baton
