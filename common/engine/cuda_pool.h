#pragma once

// The CUDA engine's KV pool: one allocation on each device of a tensor-parallel group, rank r's with KV heads
// [r * heads / ranks, (r + 1) * heads / ranks) of every block. As PoolMemory it is one pool of all heads, so workers of
// different numbers of ranks hand over to each other.
//
// KV work has streams of its own beside the compute streams. What must run behind steps waits on the device for the
// event that the runner records behind whatever it enqueues (RecordStep). Compute never waits for KV: the host waits
// for KV work before it lets a step use the blocks.

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/kv/pool_memory.h"
#include "kernels/cuda/pool_bytes.h"

namespace baton {

// With the KV heads that one of `ranks` has.
KvLayout LayoutOfRank(KvLayout layout, size_t ranks);

class CudaPool final : public PoolMemory {
 public:
  // Zeroed memory for `blocks` on each of `devices` (ordinals, rank by rank). INVALID_ARGUMENT when the KV heads do not
  // divide among them, the keys do not lie slot by slot, or kernels do not take the shape; RESOURCE_EXHAUSTED with the
  // numbers when a device has not the memory.
  static absl::StatusOr<std::unique_ptr<CudaPool>> Create(const KvLayout& layout, uint32_t blocks,
                                                          std::span<const int> devices);
  ~CudaPool() override;

  // What a rank's runner works on.
  size_t ranks() const { return ranks_.size(); }
  const KvLayout& rank_layout() const { return rank_layout_; }  // with the KV heads of one rank
  std::span<std::byte> rank_memory(size_t rank) const { return ranks_[rank].memory.span<std::byte>(); }
  // The step thread, behind what it enqueued on the rank's `compute` stream: steps, copies and swaps of blocks. Not
  // while a graph is recorded.
  absl::Status RecordStep(size_t rank, const device::Stream& compute);

  const KvLayout& layout() const override { return layout_; }
  uint32_t blocks() const override { return blocks_; }
  std::span<std::byte> host() const override { return {}; }
  std::span<std::byte> device() const override { return ranks() == 1 ? rank_memory(0) : std::span<std::byte>(); }
  absl::Status Checksums(std::span<const BlockId> ids, KeyOrder order, StepOrder steps,
                         std::span<uint64_t> checksums) override;
  absl::Status Zero(std::span<const BlockId> ids, uint32_t used, StepOrder steps) override;
  absl::StatusOr<std::unique_ptr<PoolStaging>> MakeStaging(StagingPlace place, size_t buffers, uint64_t bytes) override;

 private:
  friend class CudaStaging;

  struct Rank {
    int device = 0;
    device::Memory memory;
    device::Event stepped;
    cuda::PoolShare share;
  };
  // Checksums and zeroing of one order towards steps: what waits for a step holds up nothing that need not.
  struct Lane {
    absl::Mutex mutex;
    std::vector<device::Stream> streams;  // by rank
    device::Event done;
    device::Memory ids;        // pinned
    device::Memory checksums;  // pinned
    device::Memory gathered;   // whole blocks where the pool has parts of them; pinned when several devices write to it
  };

  CudaPool(const KvLayout& layout, uint32_t blocks, size_t ranks);
  absl::Status Allocate(std::span<const int> devices);
  absl::Status CheckIds(std::span<const BlockId> ids) const;
  absl::Status Gather(Lane& lane, std::span<const BlockId> ids, KeyOrder order);
  Lane& lane(StepOrder steps) { return steps == StepOrder::kBehind ? behind_ : beside_; }
  // Makes the lane's streams wait for what was recorded by now.
  absl::Status Begin(Lane& lane, StepOrder steps);

  const KvLayout layout_, rank_layout_;
  const uint32_t blocks_;
  std::vector<Rank> ranks_;
  Lane behind_, beside_;
};

}  // namespace baton
