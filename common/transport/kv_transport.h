#pragma once

// The data side of a handoff: a worker's pool as memory that peers may write to. One transport object a process; local,
// ucx and nccl stand in catalogue.h.
//
// A completed put or flush proves nothing about the peer's process: only an answer on the control connection does.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/kv/pool_memory.h"

namespace baton {

// Names the lease a write belongs to. One-sided transports cannot carry it; message-emulated ones do, and the target
// refuses writes whose lease is over.
struct WriteStamp {
  LeaseId lease;
  uint64_t generation = 0;
  friend bool operator==(const WriteStamp&, const WriteStamp&) = default;
};

struct PutRun {
  const std::byte* source = nullptr;  // memory of this process; null: the session's PutSource, from source_offset on
  uint64_t target_offset = 0;         // bytes from the start of the target's pool
  uint64_t bytes = 0;
  uint64_t source_offset = 0;
};

// Where runs without a source pointer come from: this worker's pool, which outlives the session, with keys put into the
// order of the target's.
struct PutSource {
  PoolMemory* pool = nullptr;
  KeyOrder key_order = KeyOrder::kBySlot;
};

// Asked on the target around every message-emulated write, on the transport's thread. Must be fast.
class WriteGate {
 public:
  virtual ~WriteGate() = default;
  // False: the bytes are dropped, and the writer learns it from the answer to its commit. True: they are copied into
  // the pool now; until Written the blocks must not be given to anyone else, even if the lease ends meanwhile.
  virtual bool Admit(const WriteStamp& stamp, uint64_t offset, uint64_t bytes) = 0;
  // Follows every Admit that said true.
  virtual void Written(const WriteStamp& stamp, uint64_t offset, uint64_t bytes) = 0;
};

// The writer's side of one peer's pool. Thread-safe. Destruction closes and waits: after it nothing reads the sources
// and no put starts any more; flushes still open report CANCELLED. Not to be destroyed from one of its own callbacks.
class KvSession {
 public:
  virtual ~KvSession() = default;

  // Starts writing runs (each inside the peer's pool, else OUT_OF_RANGE). `runs` is copied; the source bytes must stay
  // unchanged until a Flush that follows has reported. UNAVAILABLE once the peer is known to be gone.
  virtual absl::Status Put(const WriteStamp& stamp, std::span<const PutRun> runs) = 0;

  // `done` is called exactly once, from a transport thread, when every earlier Put has left the source memory and lies
  // in the peer's pool as far as the transport can tell, or with the error that ended the session. Where puts are
  // messages it is an acknowledged round trip: the target has applied or refused every earlier one.
  virtual void Flush(std::function<void(const absl::Status&)> done) = 0;

  // How bytes travel: "local", "shm" (posix/sysv), "tcp", "rdma"; label of metrics.
  virtual std::string_view lane() const = 0;
};

struct TransportCapabilities {
  bool one_sided = false;  // puts may land without the target's help and cannot be refused once started
};

class KvTransport {
 public:
  virtual ~KvTransport() = default;

  virtual std::string_view name() const = 0;
  virtual TransportCapabilities capabilities() const = 0;

  // The pool: one allocation, zeroed, aligned to 4,096 bytes, writable by peers; lives as long as the transport. Once.
  // FAILED_PRECONDITION where this transport moves bytes of devices only.
  virtual absl::StatusOr<std::span<std::byte>> AllocatePool(uint64_t bytes) = 0;

  // Instead of AllocatePool, for a pool that does not lie in this process's memory; it outlives the transport. Once.
  // FAILED_PRECONDITION where this transport cannot.
  virtual absl::Status UsePool(PoolMemory* pool) = 0;

  // Opaque bytes with which a peer connects; needs AllocatePool or UsePool before.
  virtual absl::StatusOr<std::string> Describe() const = 0;

  // INVALID_ARGUMENT for a descriptor that is not this transport's, UNAVAILABLE when the peer does not answer.
  // FAILED_PRECONDITION for a source that this transport cannot read.
  virtual absl::StatusOr<std::unique_ptr<KvSession>> Connect(const std::string& descriptor,
                                                             const PutSource& source) = 0;
  absl::StatusOr<std::unique_ptr<KvSession>> Connect(const std::string& descriptor) {
    return Connect(descriptor, PutSource{});
  }

  // Must be set before peers connect; null admits nothing that can be refused.
  virtual void SetWriteGate(WriteGate* gate) = 0;
};

}  // namespace baton
