#pragma once

// Accounting of KV blocks: which block is in which state, who holds it, which prefix it stores. Never touches the
// bytes. Thread-safe by one short lock; the step thread, the lease table and metrics all call it.
//
//   free ──Allocate──▶ owned ◀──CommitLease── leased ◀──Lease── free        (Lease and Allocate evict cached leaves,
//   LRU first)
//    ▲                  │  │                    │  └─Quarantine─▶ quarantined ──FreeQuarantined──▶ free
//    └──────Release─────┘  └─Release─▶ cached   └──FreeLease──▶ free
//
// I1: a block is in exactly one state and the five counts add up to the pool.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/hash.h"
#include "common/base/ids.h"

namespace baton {

enum class BlockState : uint8_t { kFree, kCached, kLeased, kOwned, kQuarantined };

struct BlockCounts {
  uint32_t free = 0, cached = 0, leased = 0, owned = 0, quarantined = 0;
  uint32_t total() const { return free + cached + leased + owned + quarantined; }
  uint32_t available() const { return free + cached; }
};

// What the prefix index gained or lost, in order; `sequence` has no holes, so a reader knows when it missed some.
struct PrefixEvent {
  enum class Kind : uint8_t { kStored, kRemoved } kind;
  Hash128 hash;
  uint64_t sequence;
};

class BlockPool {
 public:
  explicit BlockPool(uint32_t blocks);
  ~BlockPool();

  // `count` blocks, owned with one holder. RESOURCE_EXHAUSTED with the numbers when fewer are available; then none is
  // taken.
  absl::StatusOr<std::vector<BlockId>> Allocate(uint32_t count);
  // One more holder of an owned block (fork, prefix hit).
  void Share(std::span<const BlockId> blocks);
  // One holder fewer. The last one sends the block to cached if it was published, else to free.
  void Release(std::span<const BlockId> blocks);
  // True when more than one holds it: write only after a copy.
  bool IsShared(BlockId block) const;

  // Leases; the lease table decides when. Same errors as Allocate.
  absl::StatusOr<std::vector<BlockId>> Lease(uint32_t count);
  void CommitLease(std::span<const BlockId> blocks);      // leased -> owned, one holder
  void FreeLease(std::span<const BlockId> blocks);        // leased -> free: the writer is fenced
  void Quarantine(std::span<const BlockId> blocks);       // leased -> quarantined: the writer may still write
  void FreeQuarantined(std::span<const BlockId> blocks);  // quarantined -> free: the writer is proven gone

  // Longest run of blocks whose hashes start `chain`; each gets one more holder (cached ones become owned).
  std::vector<BlockId> MatchPrefix(std::span<const Hash128> chain);
  // Length of that run without taking it.
  uint32_t PeekPrefix(std::span<const Hash128> chain) const;
  // Makes owned, full, never again written blocks findable: blocks[i] stores chain[i]. A hash that is already stored
  // keeps its block; the duplicate stays unpublished until that block is evicted, and goes to free when released
  // before.
  void Publish(std::span<const BlockId> blocks, std::span<const Hash128> chain);
  // Drops every cached block to free (a model reload, a test).
  void DropCache();

  BlockCounts counts() const;
  uint32_t size() const { return size_; }

  // Current content of the index and the sequence number it stands at, then events as they come. The listener is called
  // under the lock: it must only enqueue. One listener; an empty function removes it.
  struct PrefixSnapshot {
    std::vector<Hash128> hashes;
    uint64_t sequence;
  };
  PrefixSnapshot SnapshotPrefixes() const;
  void SetPrefixListener(std::function<void(const PrefixEvent&)> listener);

 private:
  struct State;
  const uint32_t size_;
  mutable absl::Mutex mutex_;
  std::unique_ptr<State> state_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace baton
