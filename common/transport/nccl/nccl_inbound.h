#pragma once

// The target's side: accepts writers, receives their pieces and scatters what the gate admits. A thread listens, and
// each writer has one.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/transport/framed_socket.h"
#include "common/transport/kv_transport.h"
#include "common/transport/nccl/nccl_staging.h"

namespace baton {

class NcclInbound {
 public:
  // Writers at the same time: each has a communicator and kNcclPieces staging buffers in device memory.
  static constexpr size_t kMaxWriters = 64;

  // Listens on host:port 0. `pool` outlives it; writers prove themselves by instance and secret.
  static absl::StatusOr<std::unique_ptr<NcclInbound>> Start(const std::string& host, int device, uint64_t instance,
                                                            uint64_t secret, PoolMemory* pool);
  // Ends all sessions; nothing writes to the pool any more.
  ~NcclInbound();
  uint16_t port() const { return port_; }
  // After it the last gate is not called any more.
  void SetGate(WriteGate* gate);

 private:
  struct Writer {
    explicit Writer(FramedSocket connected) : socket(std::move(connected)) {}
    std::optional<FramedSocket> socket;  // the thread's, once there is one
    std::thread thread;
    std::atomic<bool> done{false};
  };

  NcclInbound(UniqueFd listener, uint16_t port, int device, uint64_t instance, uint64_t secret, PoolMemory* pool);
  void Accept();
  void ReapWriters();
  void ServeAndClose(Writer& writer);
  // A writer's whole life; returns why it ended.
  absl::Status Serve(FramedSocket& socket);
  absl::Status Apply(const NcclPiece& piece, PoolStaging& staging, size_t buffer);

  const UniqueFd listener_;
  const uint16_t port_;
  const int device_;
  const uint64_t instance_, secret_;
  PoolMemory* const pool_;
  absl::Mutex gate_mutex_;
  WriteGate* gate_ ABSL_GUARDED_BY(gate_mutex_) = nullptr;
  std::atomic<bool> stopping_{false};
  WakeFd stop_;
  std::list<Writer> writers_;  // the listening thread's
  std::thread thread_;
};

}  // namespace baton
