#pragma once

// The decode worker's side of handoffs: reserves blocks under leases, admits writes, verifies commits off the step
// thread, reaps what ends no other way. Owns the lease table, the control server and one verifier-and-reaper thread.
// Thread-safe.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/handoff/lease_offer.h"
#include "common/kv/block_pool.h"
#include "common/kv/pool_memory.h"
#include "common/transport/control_connection.h"
#include "common/transport/kv_transport.h"

namespace baton {

struct ReceiverOptions {
  std::string control_host = "127.0.0.1";  // listen address; also what peers are told unless advertise_host is set
  std::string advertise_host;
  uint16_t control_port = 0;
  Duration lease_duration = std::chrono::seconds(10);  // renewed while the prefill call lives
  Duration tombstone_duration = std::chrono::seconds(60);
  uint32_t max_tombstones = 16384;
  double max_leased_share = 0.5;        // of the pool, leased and verifying together
  double max_quarantined_share = 0.25;  // of the pool; above it the worker must drain and restart
  ControlOptions control;
};

// Handed over once when a commit was verified.
struct CommittedHandoff {
  std::vector<FirstToken> first_tokens;
  std::vector<BlockId> blocks;  // leased prompt blocks, then growth blocks; owned now, the callee's to release
};

// Why a lease ended without running: the message says it ("expired after 10 s", "checksum of block 3 ..."). CANCELLED
// and ABORTED: cancelled, fenced; DEADLINE_EXCEEDED: expired; UNAVAILABLE: the writer died or went silent; DATA_LOSS
// and FAILED_PRECONDITION: the commit did not verify. Called on the verifier's thread; may call the receiver.
using OnLeaseEnd = std::function<void(absl::StatusOr<CommittedHandoff>)>;

struct ReserveRequest {
  AttemptId attempt;
  uint32_t prompt_tokens = 0;
  uint32_t pinned_blocks = 0;  // prompt blocks the caller already holds (prefix hits); the lease covers those after
  uint32_t choices = 1;        // growth blocks, one each
  OnLeaseEnd on_end;           // exactly once
};

struct HandoffCounts {
  // Leases by what ended them for their request; those refused after verification are in `refused`.
  uint64_t committed = 0, expired = 0, cancelled = 0, fenced = 0, writer_lost = 0;
  // Messages of writers: refused ones, and those that came after their lease was over.
  uint64_t refused = 0, discarded = 0;
  uint64_t checksum_mismatches = 0;
  uint64_t late_writes_refused = 0;  // emulated puts outside a live lease
};

class HandoffReceiver {
 public:
  // `pool`, `memory`, `transport`, `clock` outlive it. `memory` is the transport's pool. Sets the transport's write
  // gate.
  static absl::StatusOr<std::unique_ptr<HandoffReceiver>> Start(const ReceiverOptions& options, NumericsHash numerics,
                                                                Incarnation self, BlockPool* pool, PoolMemory* memory,
                                                                KvTransport* transport, const Clock* clock);
  // Ends every open lease with UNAVAILABLE; blocks that a writer may still reach stay quarantined in the pool.
  virtual ~HandoffReceiver() = default;

  // RESOURCE_EXHAUSTED with the numbers when the pool or the leased share is full, FAILED_PRECONDITION when it could
  // not hold this lease if it were empty, UNAVAILABLE when must_restart, INVALID_ARGUMENT when nothing is left to write
  // or no choice is asked for; nothing is kept then and on_end not called.
  virtual absl::StatusOr<LeaseOffer> Reserve(ReserveRequest request) = 0;
  // NOT_FOUND when the lease is over.
  virtual absl::Status Renew(const LeaseKey& key) = 0;
  // The request is gone. Blocks go free at once if no writer was ever attached, else when it is fenced or proven gone.
  virtual void Cancel(const LeaseKey& key) = 0;
  // A fence that came through the router.
  virtual absl::Status RelayFence(const FenceMessage& fence) = 0;

  virtual HandoffCounts counts() const = 0;
  virtual uint32_t open_leases() const = 0;
  // The leased share of the pool: no lease can be larger.
  virtual uint32_t max_lease_blocks() const = 0;
  // True once quarantined blocks exceed their share.
  virtual bool must_restart() const = 0;
};

}  // namespace baton
