#pragma once

// Staging buffers of a CudaPool, pinned or on its first device, with a stream on each of its devices.

#include <memory>
#include <span>
#include <vector>

#include "common/engine/cuda_pool.h"

namespace baton {

class CudaStaging final : public PoolStaging {
 public:
  static absl::StatusOr<std::unique_ptr<PoolStaging>> Create(CudaPool* pool, StagingPlace place, size_t buffers,
                                                             uint64_t bytes);
  ~CudaStaging() override;

  std::byte* buffer(size_t index) const override { return memory_.data() + index * stride_; }
  absl::Status Read(size_t index, std::span<const PoolRun> runs, KeyOrder order) override;
  absl::Status Write(size_t index, std::span<const PoolRun> runs) override;
  absl::StatusOr<bool> Done(size_t index) override;
  absl::Status Wait(size_t index) override;
  absl::Status MakeWait(const device::Stream& stream, size_t index) override;

 private:
  CudaStaging(CudaPool* pool, StagingPlace place, uint64_t bytes);
  absl::Status Allocate(size_t buffers);
  // One device, and nothing to put into another order: plain copies.
  bool copies(KeyOrder order) const { return pool_->ranks() == 1 && order == pool_->layout().key_order; }
  bool bounces() const { return bounce_.size() > 0; }
  // Where every device reads and writes a buffer's bytes.
  std::byte* reached(size_t index) const { return (bounces() ? bounce_.data() : memory_.data()) + index * stride_; }
  device::Event& event(size_t index, size_t rank) { return events_[index * pool_->ranks() + rank]; }
  absl::Status Move(size_t index, std::span<const PoolRun> runs, size_t rank, bool gather, bool by_element);

  CudaPool* const pool_;
  const StagingPlace place_;
  const uint64_t stride_;
  device::Memory memory_;
  device::Memory bounce_;                // pinned: between several devices and buffers on the first of them
  std::vector<device::Stream> streams_;  // by rank
  std::vector<device::Event> events_;    // [buffer, rank]: behind the last call
};

}  // namespace baton
