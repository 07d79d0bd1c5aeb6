#pragma once

// Every lease of a decode worker, from reservation to tombstone: plain logic, no threads, no bytes. The only code that
// moves blocks out of *leased* and *quarantined*. Not thread-safe: the receiver guards it by one lock.
//
//   leased ──Attach──▶ attached ──BeginCommit──▶ verifying ──FinishCommit──▶ committed | refused | discarded
//     │                   ├──Cancel──▶ cancelled ──deadline──▶ quarantined
//     │                   └──deadline, writer suspect or lost──▶ quarantined
//     └─Cancel, deadline, fence─▶ discarded            (attached, cancelled and quarantined: discarded after a
//                                                       commit, a fence, or proof that the writer is gone)
//
// Committed, refused and discarded are tombstones: bounded by count and time, they answer duplicates.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/handoff/receiver.h"
#include "common/kv/block_pool.h"
#include "common/transport/control_connection.h"
#include "common/transport/control_messages.h"
#include "common/transport/kv_transport.h"

namespace baton {

struct LeaseLimits {
  Duration duration = std::chrono::seconds(10);
  Duration tombstone_duration = std::chrono::seconds(60);
  uint32_t max_tombstones = 16384;
  uint32_t max_leased_blocks = 0;
  uint32_t max_quarantined_blocks = 0;
  uint64_t block_bytes = 0;
};

enum class LeaseState : uint8_t { kLeased, kAttached, kVerifying, kCancelled, kQuarantined };

struct Lease {
  LeaseKey key;
  LeaseState state = LeaseState::kLeased;
  std::optional<Incarnation> writer;
  uint32_t prompt_tokens = 0;
  uint32_t choices = 0;
  std::vector<BlockId> prompt_blocks;  // ascending; the only ones a writer may touch
  std::vector<BlockId> growth_blocks;
  TimePoint deadline = TimePoint::max();
  uint32_t copies = 0;  // emulated writes that were admitted and are still being copied
  OnLeaseEnd on_end;    // empty once its call is due
};

class LeaseTable {
 public:
  // `pool` and `clock` outlive it.
  LeaseTable(const LeaseLimits& limits, BlockPool* pool, const Clock* clock);

  // Leases `prompt_blocks` + `choices` blocks. Its time runs from the first Renew on, so that the caller may prepare
  // the blocks. RESOURCE_EXHAUSTED when the pool or the leased share is full, FAILED_PRECONDITION when the lease is
  // larger than that share, UNAVAILABLE when must_restart.
  absl::StatusOr<Lease> Reserve(uint32_t prompt_tokens, uint32_t prompt_blocks, uint32_t choices, OnLeaseEnd on_end);
  absl::Status Renew(const LeaseKey& key);  // NOT_FOUND when over
  void Cancel(const LeaseKey& key);
  // Takes back a lease that nobody was told of; on_end is not called.
  void Withdraw(const LeaseKey& key);

  AnswerMessage Attach(Incarnation peer, const LeaseKey& key);

  struct CommitStart {
    enum class Kind : uint8_t { kVerify, kAlreadyVerifying, kAnswered } kind = Kind::kAnswered;
    AnswerMessage answer;          // kAnswered
    const Lease* lease = nullptr;  // kVerify; stays until FinishCommit
  };
  // kVerify: the lease is *verifying* now; neither the reaper nor a peer's death touches it until FinishCommit.
  CommitStart BeginCommit(Incarnation peer, const LeaseKey& key);
  // `verified` not OK: refused with that text. Discarded when the request went away meanwhile.
  AnswerMessage FinishCommit(LeaseId lease, const absl::Status& verified, std::vector<FirstToken> first_tokens);

  // `peer` is empty for a fence that the router relays.
  AnswerMessage Fence(std::optional<Incarnation> peer, const FenceMessage& message);
  void OnPeerEvent(Incarnation peer, PeerEvent event);
  // Ends leases and tombstones whose time is over.
  void Reap();
  // Ends every lease for its request; blocks that a writer may still reach stay quarantined.
  void EndAll(const absl::Status& why);

  bool Admit(const WriteStamp& stamp, uint64_t offset, uint64_t bytes);
  void Written(const WriteStamp& stamp);

  // The calls of on_end that are due, in order. The caller makes them without its lock.
  std::vector<std::function<void()>> TakeEnds() { return std::exchange(ends_, {}); }
  bool has_ends() const { return !ends_.empty(); }

  // Null when it is over.
  const Lease* Find(LeaseId lease) const;
  const HandoffCounts& counts() const { return counts_; }
  uint32_t open_leases() const { return static_cast<uint32_t>(leases_.size()); }
  uint32_t tombstones() const { return static_cast<uint32_t>(tombstones_.size()); }
  bool must_restart() const { return quarantined_blocks_ > limits_.max_quarantined_blocks; }

 private:
  struct Tombstone {
    LeaseKey key;
    std::optional<Incarnation> writer;
    LeaseAnswer answer;
    std::string reason;
    TimePoint expires;
  };
  // Blocks of a lease that is over, except that an admitted write is being copied into them just now.
  struct Draining {
    uint32_t copies;
    std::vector<BlockId> blocks;
    bool quarantined;
  };

  Lease* Match(const LeaseKey& key);
  AnswerMessage AnswerOfTheDead(std::optional<Incarnation> peer, const LeaseKey& key);
  AnswerMessage Refuse(const LeaseKey& key, std::string reason);
  AnswerMessage Discard(const LeaseKey& key, std::string reason);
  void Notify(Lease& lease, absl::StatusOr<CommittedHandoff> result);
  void Quarantine(Lease& lease);
  void Close(Lease& lease, LeaseAnswer answer, std::string reason);
  void Bury(Lease& lease, LeaseAnswer answer, std::string reason);
  void FreeBlocks(const std::vector<BlockId>& blocks, bool quarantined);

  const LeaseLimits limits_;
  BlockPool* const pool_;
  const Clock* const clock_;
  const uint64_t generation_;  // random for each start: a lease of an earlier process never matches
  uint64_t next_lease_ = 1;
  uint32_t leased_blocks_ = 0;
  uint32_t quarantined_blocks_ = 0;
  absl::flat_hash_map<LeaseId, std::unique_ptr<Lease>> leases_;
  absl::flat_hash_map<LeaseId, Draining> draining_;
  absl::flat_hash_map<LeaseId, Tombstone> tombstones_;
  std::deque<LeaseId> tombstone_order_;  // oldest first
  std::vector<std::function<void()>> ends_;
  HandoffCounts counts_;
};

}  // namespace baton
