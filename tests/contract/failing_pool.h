#pragma once

// A pool into which one copy fails, as on a device that is breaking.

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/kv/pool_memory.h"

namespace baton {

class FailingPool final : public PoolMemory {
 public:
  // kStart: the copy cannot be enqueued. kEnd: it is, and its error comes out when it is asked for.
  enum class Failure : uint8_t { kNone, kStart, kEnd };

  explicit FailingPool(std::unique_ptr<PoolMemory> pool) : pool_(std::move(pool)) {}

  // Of the next write through any staging buffers.
  void FailNextWrite(Failure failure) { next_ = failure; }

  const KvLayout& layout() const override { return pool_->layout(); }
  uint32_t blocks() const override { return pool_->blocks(); }
  std::span<std::byte> host() const override { return pool_->host(); }
  std::span<std::byte> device() const override { return pool_->device(); }
  absl::Status Checksums(std::span<const BlockId> ids, KeyOrder order, StepOrder steps,
                         std::span<uint64_t> checksums) override {
    return pool_->Checksums(ids, order, steps, checksums);
  }
  absl::Status Zero(std::span<const BlockId> ids, uint32_t used, StepOrder steps) override {
    return pool_->Zero(ids, used, steps);
  }
  absl::StatusOr<std::unique_ptr<PoolStaging>> MakeStaging(StagingPlace place, size_t buffers,
                                                           uint64_t bytes) override {
    BATON_ASSIGN_OR_RETURN(auto staging, pool_->MakeStaging(place, buffers, bytes));
    return std::make_unique<Staging>(&next_, std::move(staging));
  }

 private:
  class Staging final : public PoolStaging {
   public:
    Staging(std::atomic<Failure>* next, std::unique_ptr<PoolStaging> staging)
        : next_(next), staging_(std::move(staging)) {}
    std::byte* buffer(size_t index) const override { return staging_->buffer(index); }
    absl::Status Read(size_t index, std::span<const PoolRun> runs, KeyOrder order) override {
      return staging_->Read(index, runs, order);
    }
    absl::Status Write(size_t index, std::span<const PoolRun> runs) override {
      if (broken_ == index) broken_.reset();
      const Failure failure = next_->exchange(Failure::kNone);
      if (failure == Failure::kStart) return Broken();
      if (failure == Failure::kEnd) broken_ = index;
      return staging_->Write(index, runs);
    }
    absl::StatusOr<bool> Done(size_t index) override {
      if (broken_ == index) return Broken();
      return staging_->Done(index);
    }
    absl::Status Wait(size_t index) override {
      const absl::Status status = staging_->Wait(index);
      return broken_ == index ? Broken() : status;
    }
    absl::Status MakeWait(const device::Stream& stream, size_t index) override {
      return staging_->MakeWait(stream, index);
    }

   private:
    static absl::Status Broken() { return Internal("the device is broken"); }
    std::atomic<Failure>* const next_;
    const std::unique_ptr<PoolStaging> staging_;
    std::optional<size_t> broken_;
  };

  const std::unique_ptr<PoolMemory> pool_;
  std::atomic<Failure> next_{Failure::kNone};
};

}  // namespace baton
