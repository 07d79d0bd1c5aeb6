#pragma once

// The CUDA engine's KV pool: one allocation on each device of a tensor-parallel group, rank r's with KV heads
// [r * heads / ranks, (r + 1) * heads / ranks) of every block. As PoolMemory it is one pool of all heads, so workers of
// different numbers of ranks hand over to each other.
//
// Each rank has a stream for KV beside its compute stream. KV work that must see what steps wrote waits there for the
// event that the runner records behind every step (RecordStep); the host waits for KV work before it lets a step use
// the blocks, so compute never waits for KV.

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/device/stream.h"
#include "common/kv/pool_memory.h"

namespace baton {

class CudaPool final : public PoolMemory {
 public:
  // Zeroed memory for `blocks` on each of `devices` (ordinals, rank by rank). INVALID_ARGUMENT when the KV heads do not
  // divide among them, the keys do not lie slot by slot, or a head's piece is no multiple of 16 bytes;
  // RESOURCE_EXHAUSTED with the numbers when a device has not the memory.
  static absl::StatusOr<std::unique_ptr<CudaPool>> Create(const KvLayout& layout, uint32_t blocks,
                                                          std::span<const int> devices);
  ~CudaPool() override;

  // What a rank's runner works on.
  size_t ranks() const;
  const KvLayout& rank_layout() const;  // with the KV heads of one rank
  std::span<std::byte> rank_memory(size_t rank) const;
  // The step thread, behind everything that a step enqueued on the rank's `compute` stream; outside of graphs.
  absl::Status RecordStep(size_t rank, const device::Stream& compute);

  const KvLayout& layout() const override;
  uint32_t blocks() const override;
  std::span<std::byte> host() const override { return {}; }
  absl::Status Checksums(std::span<const BlockId> ids, KeyOrder order, std::span<uint64_t> checksums) override;
  absl::Status Zero(std::span<const BlockId> ids, uint32_t used) override;
  absl::StatusOr<std::unique_ptr<PoolStaging>> MakeStaging(StagingPlace place, size_t buffers, uint64_t bytes) override;

 private:
  struct Impl;
  explicit CudaPool(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace baton
