#pragma once

// A worker's pool as the contract tests see it, bytes that are read and written: memory that the transport allocated,
// or memory of devices, whose bytes pass through staging buffers.

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status.h"
#include "common/kv/pool_memory.h"
#include "common/transport/kv_transport.h"
#include "tests/contract/transport_modes.h"

namespace baton {

class ContractPool {
 public:
  ContractPool() = default;

  // The transport's pool of `bytes`, where `mode` wants it. It outlives the transport.
  static absl::StatusOr<ContractPool> Make(const TransportMode& mode, KvTransport& transport, uint64_t bytes) {
    ContractPool pool;
    pool.bytes_ = bytes;
    if (mode.devices == 0) {
      BATON_ASSIGN_OR_RETURN(pool.host_, transport.AllocatePool(bytes));
    } else {
      pool.device_ = MakeDevicePool(bytes, mode.devices);
      pool.window_ = std::make_unique<Window>();
      BATON_ASSIGN_OR_RETURN(pool.window_->staging, pool.device_->MakeStaging(StagingPlace::kHost, 1, bytes));
      BATON_RETURN_IF_ERROR(transport.UsePool(pool.device_.get()));
    }
    return pool;
  }

  uint64_t bytes() const { return bytes_; }
  std::span<std::byte> host() const { return host_; }  // empty on devices
  PoolMemory* device() const { return device_.get(); }

  void Write(uint64_t offset, std::span<const std::byte> bytes) const {
    if (device_ == nullptr) {
      std::memcpy(host_.data() + offset, bytes.data(), bytes.size());
      return;
    }
    absl::MutexLock lock(&window_->mutex);
    PoolStaging* const staging = window_->staging.get();
    std::memcpy(staging->buffer(0), bytes.data(), bytes.size());
    const PoolRun run{offset, bytes.size(), 0};
    BATON_CHECK(staging->Write(0, {&run, 1}).ok() && staging->Wait(0).ok());
  }
  std::vector<std::byte> Read(uint64_t offset, uint64_t bytes) const {
    if (device_ == nullptr) return {host_.data() + offset, host_.data() + offset + bytes};
    absl::MutexLock lock(&window_->mutex);
    PoolStaging* const staging = window_->staging.get();
    const PoolRun run{offset, bytes, 0};
    BATON_CHECK(staging->Read(0, {&run, 1}, device_->layout().key_order).ok() && staging->Wait(0).ok());
    return {staging->buffer(0), staging->buffer(0) + bytes};
  }
  std::vector<std::byte> Read() const { return Read(0, bytes_); }

  // As a source of puts.
  PutSource source() const { return {device_.get(), KeyOrder::kBySlot}; }
  PutRun Run(uint64_t source_offset, uint64_t target_offset, uint64_t bytes) const {
    if (device_ != nullptr) return {nullptr, target_offset, bytes, source_offset};
    return {host_.data() + source_offset, target_offset, bytes};
  }

 private:
  uint64_t bytes_ = 0;
  std::span<std::byte> host_;
  std::unique_ptr<PoolMemory> device_;
  // Made once: to free memory of a device waits for all its work, which a callback of a transport must not.
  struct Window {
    absl::Mutex mutex;
    std::unique_ptr<PoolStaging> staging;
  };
  std::unique_ptr<Window> window_;
};

}  // namespace baton
