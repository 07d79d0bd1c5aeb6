#include "common/engine/cuda_pool.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/status.h"
#include "common/device/device.h"
#include "common/engine/cuda_staging.h"
#include "common/engine/cuda_status.h"
#include "kernels/cuda/checksum.h"

namespace baton {
namespace {

// Blocks that a lane takes at once; of gathered ones no more than these bytes hold, but one at least.
constexpr size_t kIdsAtOnce = 1024;
constexpr uint64_t kGatheredBytes = 16 << 20;

constexpr char kKvWork[] = "enqueueing KV work";

absl::Status Check(const KvLayout& layout, uint32_t blocks, size_t ranks) {
  if (ranks == 0 || blocks == 0) return InvalidArgument("a KV pool of %d blocks on %d devices", blocks, ranks);
  if (layout.kv_heads == 0 || layout.kv_heads % ranks != 0) {
    return InvalidArgument("%d KV heads do not divide among %d devices", layout.kv_heads, ranks);
  }
  if (layout.key_order != KeyOrder::kBySlot) {
    return InvalidArgument("keys lie element by element; the CUDA engine reads them slot by slot");
  }
  const uint64_t slot_bytes = layout.head_dim * BlockOf(layout.dtype).bytes;
  if (layout.has_scales() || slot_bytes % 4 != 0 || layout.HeadBytes() % 16 != 0) {
    return InvalidArgument("the CUDA engine does not take KV of %s, %d elements a head, %d tokens a block",
                           DTypeName(layout.dtype), layout.head_dim, layout.block_size);
  }
  return absl::OkStatus();
}

}  // namespace

KvLayout LayoutOfRank(KvLayout layout, size_t ranks) {
  layout.kv_heads /= static_cast<uint32_t>(ranks);
  return layout;
}

absl::StatusOr<std::unique_ptr<CudaPool>> CudaPool::Create(const KvLayout& layout, uint32_t blocks,
                                                           std::span<const int> devices) {
  BATON_RETURN_IF_ERROR(Check(layout, blocks, devices.size()));
  std::unique_ptr<CudaPool> pool(new CudaPool(layout, blocks, devices.size()));
  BATON_RETURN_IF_ERROR(pool->Allocate(devices));
  return pool;
}

CudaPool::CudaPool(const KvLayout& layout, uint32_t blocks, size_t ranks)
    : layout_(layout), rank_layout_(LayoutOfRank(layout, ranks)), blocks_(blocks), ranks_(ranks) {}

CudaPool::~CudaPool() = default;

absl::Status CudaPool::Allocate(std::span<const int> devices) {
  for (Lane* lane : {&behind_, &beside_}) lane->streams.resize(ranks_.size());
  for (size_t i = ranks_.size(); i-- > 0;) {  // the first device stays the thread's
    Rank& rank = ranks_[i];
    rank.device = devices[i];
    BATON_RETURN_IF_ERROR(device::Open(rank.device).status());
    BATON_ASSIGN_OR_RETURN(
        rank.memory, device::Memory::Allocate(device::MemoryKind::kDevice, blocks_ * rank_layout_.BytesPerBlock()));
    BATON_ASSIGN_OR_RETURN(rank.stepped, device::Event::Create());
    rank.share = {.memory = rank.memory.data(),
                  .heads = static_cast<int32_t>(layout_.kv_heads),
                  .first_head = static_cast<int32_t>(i * rank_layout_.kv_heads),
                  .share_heads = static_cast<int32_t>(rank_layout_.kv_heads),
                  .layers = static_cast<int32_t>(layout_.layers),
                  .block_size = static_cast<int32_t>(layout_.block_size),
                  .head_dim = static_cast<int32_t>(layout_.head_dim),
                  .element_bytes = static_cast<int32_t>(BlockOf(layout_.dtype).bytes)};
    for (Lane* lane : {&behind_, &beside_}) {
      BATON_ASSIGN_OR_RETURN(lane->streams[i], device::Stream::Create());
    }
    BATON_RETURN_IF_ERROR(behind_.streams[i].Fill(rank.memory.data(), 0, rank.memory.size()));
    BATON_RETURN_IF_ERROR(behind_.streams[i].Synchronize());
  }
  for (Lane* lane : {&behind_, &beside_}) {
    BATON_ASSIGN_OR_RETURN(lane->done, device::Event::Create());
    BATON_ASSIGN_OR_RETURN(lane->ids,
                           device::Memory::Allocate(device::MemoryKind::kPinned, kIdsAtOnce * sizeof(BlockId)));
    BATON_ASSIGN_OR_RETURN(lane->checksums,
                           device::Memory::Allocate(device::MemoryKind::kPinned, kIdsAtOnce * sizeof(uint64_t)));
  }
  return absl::OkStatus();
}

absl::Status CudaPool::RecordStep(size_t rank, const device::Stream& compute) {
  return compute.Record(ranks_[rank].stepped);
}

absl::Status CudaPool::CheckIds(std::span<const BlockId> ids) const {
  for (const BlockId id : ids) {
    if (id >= blocks_) return OutOfRange("block %d of a pool of %d", id, blocks_);
  }
  return absl::OkStatus();
}

absl::Status CudaPool::Begin(Lane& lane, StepOrder steps) {
  if (steps == StepOrder::kBeside) return absl::OkStatus();
  for (size_t i = 0; i < ranks_.size(); ++i) BATON_RETURN_IF_ERROR(lane.streams[i].WaitFor(ranks_[i].stepped));
  return absl::OkStatus();
}

absl::Status CudaPool::Gather(Lane& lane, std::span<const BlockId> ids, KeyOrder order) {
  const auto block_bytes = static_cast<int64_t>(layout_.BytesPerBlock());
  for (size_t i = ranks_.size(); i-- > 0;) {
    BATON_RETURN_IF_ERROR(device::Use(ranks_[i].device));
    for (size_t first = 0; first < ids.size(); first += cuda::kMaxPoolRanges) {
      std::array<cuda::PoolRange, cuda::kMaxPoolRanges> ranges;
      const int count = static_cast<int>(std::min<size_t>(cuda::kMaxPoolRanges, ids.size() - first));
      for (int j = 0; j < count; ++j) {
        ranges[j] = {ids[first + j] * block_bytes, block_bytes, static_cast<int64_t>(first + j) * block_bytes};
      }
      BATON_RETURN_IF_ERROR(
          Enqueued(cuda::GatherPoolBytes(ranks_[i].share, ranges.data(), count, order == KeyOrder::kByElement,
                                         lane.gathered.data(), lane.streams[i].get()),
                   kKvWork));
    }
    // The other devices' parts are there before the first one reads them.
    if (i > 0) BATON_RETURN_IF_ERROR(lane.streams[i].Synchronize());
  }
  return absl::OkStatus();
}

absl::Status CudaPool::Checksums(std::span<const BlockId> ids, KeyOrder order, StepOrder steps,
                                 std::span<uint64_t> checksums) {
  BATON_RETURN_IF_ERROR(CheckIds(ids));
  const uint64_t block_bytes = layout_.BytesPerBlock();
  const bool in_place = ranks_.size() == 1 && order == layout_.key_order;
  Lane& lane = this->lane(steps);
  absl::MutexLock lock(&lane.mutex);
  BATON_RETURN_IF_ERROR(device::Use(ranks_[0].device));
  BATON_RETURN_IF_ERROR(Begin(lane, steps));
  size_t at_once = kIdsAtOnce;
  if (!in_place) {
    at_once = std::clamp<size_t>(kGatheredBytes / block_bytes, 1, kIdsAtOnce);
    if (lane.gathered.size() == 0) {
      const auto kind = ranks_.size() == 1 ? device::MemoryKind::kDevice : device::MemoryKind::kPinned;
      BATON_ASSIGN_OR_RETURN(lane.gathered, device::Memory::Allocate(kind, at_once * block_bytes));
    }
  }
  const device::Stream& stream = lane.streams[0];
  for (size_t first = 0; first < ids.size(); first += at_once) {
    const std::span<const BlockId> some = ids.subspan(first, std::min(at_once, ids.size() - first));
    if (!in_place) BATON_RETURN_IF_ERROR(Gather(lane, some, order));
    for (size_t i = 0; i < some.size(); ++i) lane.ids.as<BlockId>()[i] = in_place ? some[i] : static_cast<BlockId>(i);
    const std::byte* blocks = in_place ? ranks_[0].memory.data() : lane.gathered.data();
    BATON_RETURN_IF_ERROR(
        Enqueued(cuda::ChecksumBlocks(blocks, lane.ids.as<BlockId>(), static_cast<int64_t>(some.size()),
                                      static_cast<int64_t>(block_bytes), lane.checksums.as<uint64_t>(), stream.get()),
                 kKvWork));
    BATON_RETURN_IF_ERROR(stream.Record(lane.done));
    BATON_RETURN_IF_ERROR(lane.done.Wait());
    std::copy_n(lane.checksums.as<uint64_t>(), some.size(), checksums.begin() + static_cast<ptrdiff_t>(first));
  }
  return absl::OkStatus();
}

absl::Status CudaPool::Zero(std::span<const BlockId> ids, uint32_t used, StepOrder steps) {
  BATON_RETURN_IF_ERROR(CheckIds(ids));
  Lane& lane = this->lane(steps);
  absl::MutexLock lock(&lane.mutex);
  BATON_RETURN_IF_ERROR(Begin(lane, steps));
  for (size_t i = ranks_.size(); i-- > 0;) {
    BATON_RETURN_IF_ERROR(device::Use(ranks_[i].device));
    for (size_t first = 0; first < ids.size(); first += cuda::kMaxPoolRanges) {
      const int count = static_cast<int>(std::min<size_t>(cuda::kMaxPoolRanges, ids.size() - first));
      BATON_RETURN_IF_ERROR(Enqueued(cuda::ZeroPoolSlots(ranks_[i].share, ids.data() + first, count,
                                                         static_cast<int32_t>(used), lane.streams[i].get()),
                                     kKvWork));
    }
  }
  for (const device::Stream& stream : lane.streams) BATON_RETURN_IF_ERROR(stream.Synchronize());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PoolStaging>> CudaPool::MakeStaging(StagingPlace place, size_t buffers, uint64_t bytes) {
  return CudaStaging::Create(this, place, buffers, bytes);
}

}  // namespace baton
