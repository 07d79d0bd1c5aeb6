#pragma once

// A pool in this process's memory, whose steps are over when they return: there is nothing to order.

#include <memory>
#include <span>

#include "common/kv/pool_memory.h"

namespace baton {

class HostPool final : public PoolMemory {
 public:
  // As many blocks as `memory` holds; it outlives the pool.
  HostPool(const KvLayout& layout, std::span<std::byte> memory);

  const KvLayout& layout() const override { return layout_; }
  uint32_t blocks() const override { return blocks_; }
  std::span<std::byte> host() const override { return memory_; }
  std::span<std::byte> device() const override { return {}; }
  absl::Status Checksums(std::span<const BlockId> ids, KeyOrder order, StepOrder steps,
                         std::span<uint64_t> checksums) override;
  absl::Status Zero(std::span<const BlockId> ids, uint32_t used, StepOrder steps) override;
  // Reads and writes are over when they return.
  absl::StatusOr<std::unique_ptr<PoolStaging>> MakeStaging(StagingPlace place, size_t buffers, uint64_t bytes) override;

 private:
  const KvLayout layout_;
  const uint32_t blocks_;
  const std::span<std::byte> memory_;
};

}  // namespace baton
