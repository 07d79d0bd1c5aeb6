#include "common/kv/block_pool.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/status.h"

namespace baton {
namespace {

constexpr BlockId kNone = ~BlockId{0};

// Cached blocks, oldest first, as a list threaded through an array: no allocation when a block comes or goes.
class LruList {
 public:
  explicit LruList(uint32_t blocks) : links_(blocks) {}

  bool empty() const { return oldest_ == kNone; }
  BlockId oldest() const { return oldest_; }

  void PushNewest(BlockId block) {
    links_[block] = {newest_, kNone};
    (newest_ == kNone ? oldest_ : links_[newest_].next) = block;
    newest_ = block;
  }
  void Remove(BlockId block) {
    const auto [previous, next] = links_[block];
    (previous == kNone ? oldest_ : links_[previous].next) = next;
    (next == kNone ? newest_ : links_[next].previous) = previous;
  }

 private:
  struct Link {
    BlockId previous = kNone;
    BlockId next = kNone;
  };
  std::vector<Link> links_;
  BlockId oldest_ = kNone;
  BlockId newest_ = kNone;
};

}  // namespace

struct BlockPool::State {
  struct Block {
    BlockState state = BlockState::kFree;
    bool published = false;       // the index maps `hash` to this block
    uint32_t holders = 0;         // > 0 exactly when owned
    std::optional<Hash128> hash;  // of the content, once Publish named it; also of duplicates
  };

  explicit State(uint32_t size) : blocks(size), cached(size) {
    free.reserve(size);
    index.reserve(size);
    for (BlockId block = size; block > 0; --block) free.push_back(block - 1);
    counts.free = size;
  }

  uint32_t& Count(BlockState state) {
    switch (state) {
      case BlockState::kFree:
        return counts.free;
      case BlockState::kCached:
        return counts.cached;
      case BlockState::kLeased:
        return counts.leased;
      case BlockState::kOwned:
        return counts.owned;
      case BlockState::kQuarantined:
        break;
    }
    return counts.quarantined;
  }

  Block& At(BlockId id, BlockState expected) {
    BATON_CHECK(id < blocks.size());
    BATON_CHECK(blocks[id].state == expected);
    return blocks[id];
  }

  // The only place where a block changes state.
  void Move(BlockId id, BlockState from, BlockState to) {
    Block& block = At(id, from);
    --Count(from);
    ++Count(to);
    block.state = to;
    if (from == BlockState::kCached) cached.Remove(id);
    if (to == BlockState::kCached) cached.PushNewest(id);
    if (to == BlockState::kFree) {
      block = Block{};
      free.push_back(id);
    }
  }

  void Emit(PrefixEvent::Kind kind, const Hash128& hash) {
    ++sequence;
    if (listener) listener(PrefixEvent{kind, hash, sequence});
  }

  void Evict(BlockId id) {
    const Hash128 hash = *blocks[id].hash;
    Move(id, BlockState::kCached, BlockState::kFree);
    // Somebody may hold the same content, and blocks that hang on it: they stay findable.
    if (const auto twin = duplicates.find(hash); twin != duplicates.end()) {
      const BlockId heir = twin->second.back();
      ForgetDuplicate(hash, heir);
      blocks[heir].published = true;
      index[hash] = heir;
      return;
    }
    index.erase(hash);
    Emit(PrefixEvent::Kind::kRemoved, hash);
  }

  void ForgetDuplicate(const Hash128& hash, BlockId id) {
    const auto entry = duplicates.find(hash);
    std::erase(entry->second, id);
    if (entry->second.empty()) duplicates.erase(entry);
  }

  absl::StatusOr<std::vector<BlockId>> Take(uint32_t count, BlockState to) {
    if (count > counts.available()) {
      return ResourceExhausted(
          "%d KV blocks needed, %d of %d available (%d free, %d cached; %d owned, %d leased, "
          "%d quarantined)",
          count, counts.available(), counts.total(), counts.free, counts.cached, counts.owned, counts.leased,
          counts.quarantined);
    }
    while (counts.free < count) Evict(cached.oldest());
    std::vector<BlockId> taken(free.end() - count, free.end());
    free.resize(free.size() - count);
    for (const BlockId id : taken) {
      Move(id, BlockState::kFree, to);
      if (to == BlockState::kOwned) blocks[id].holders = 1;
    }
    return taken;
  }

  void ReleaseOne(BlockId id) {
    Block& block = At(id, BlockState::kOwned);
    if (--block.holders > 0) return;
    if (block.published) {
      Move(id, BlockState::kOwned, BlockState::kCached);
      return;
    }
    // The holder of a duplicate used that prefix just now: without this its descendants would outlive it in the cache.
    if (block.hash) {
      ForgetDuplicate(*block.hash, id);
      if (const auto stored = index.find(*block.hash);
          stored != index.end() && blocks[stored->second].state == BlockState::kCached) {
        cached.Remove(stored->second);
        cached.PushNewest(stored->second);
      }
    }
    Move(id, BlockState::kOwned, BlockState::kFree);
  }

  std::vector<Block> blocks;
  std::vector<BlockId> free;  // a stack; the next block to hand out is its last
  LruList cached;
  absl::flat_hash_map<Hash128, BlockId> index;
  absl::flat_hash_map<Hash128, std::vector<BlockId>> duplicates;  // owned, of content that `index` has elsewhere
  BlockCounts counts;
  uint64_t sequence = 0;
  std::function<void(const PrefixEvent&)> listener;
};

namespace {

// Ascending ids lie side by side in memory, so that a handoff into them coalesces into few puts.
absl::StatusOr<std::vector<BlockId>> Ascending(absl::StatusOr<std::vector<BlockId>> blocks) {
  if (blocks.ok()) std::sort(blocks->begin(), blocks->end());
  return blocks;
}

}  // namespace

BlockPool::BlockPool(uint32_t blocks) : size_(blocks), state_(std::make_unique<State>(blocks)) {}

BlockPool::~BlockPool() = default;

absl::StatusOr<std::vector<BlockId>> BlockPool::Allocate(uint32_t count) {
  absl::MutexLock lock(&mutex_);
  return Ascending(state_->Take(count, BlockState::kOwned));
}

void BlockPool::Share(std::span<const BlockId> blocks) {
  absl::MutexLock lock(&mutex_);
  for (const BlockId id : blocks) ++state_->At(id, BlockState::kOwned).holders;
}

void BlockPool::Release(std::span<const BlockId> blocks) {
  absl::MutexLock lock(&mutex_);
  // Back to front: a sequence's last block becomes the oldest of the cache, so that leaves are evicted before the
  // prefixes they hang on; and the free stack hands the blocks out again in ascending order.
  for (auto id = blocks.rbegin(); id != blocks.rend(); ++id) state_->ReleaseOne(*id);
}

bool BlockPool::IsShared(BlockId block) const {
  absl::MutexLock lock(&mutex_);
  return state_->At(block, BlockState::kOwned).holders > 1;
}

absl::StatusOr<std::vector<BlockId>> BlockPool::Lease(uint32_t count) {
  absl::MutexLock lock(&mutex_);
  return Ascending(state_->Take(count, BlockState::kLeased));
}

void BlockPool::CommitLease(std::span<const BlockId> blocks) {
  absl::MutexLock lock(&mutex_);
  for (const BlockId id : blocks) {
    state_->Move(id, BlockState::kLeased, BlockState::kOwned);
    state_->blocks[id].holders = 1;
  }
}

void BlockPool::FreeLease(std::span<const BlockId> blocks) {
  absl::MutexLock lock(&mutex_);
  for (auto id = blocks.rbegin(); id != blocks.rend(); ++id) state_->Move(*id, BlockState::kLeased, BlockState::kFree);
}

void BlockPool::Quarantine(std::span<const BlockId> blocks) {
  absl::MutexLock lock(&mutex_);
  for (const BlockId id : blocks) state_->Move(id, BlockState::kLeased, BlockState::kQuarantined);
}

void BlockPool::FreeQuarantined(std::span<const BlockId> blocks) {
  absl::MutexLock lock(&mutex_);
  for (auto id = blocks.rbegin(); id != blocks.rend(); ++id) {
    state_->Move(*id, BlockState::kQuarantined, BlockState::kFree);
  }
}

std::vector<BlockId> BlockPool::MatchPrefix(std::span<const Hash128> chain) {
  absl::MutexLock lock(&mutex_);
  std::vector<BlockId> hits;
  for (const Hash128& hash : chain) {
    const auto stored = state_->index.find(hash);
    if (stored == state_->index.end()) break;
    const BlockId id = stored->second;
    if (state_->blocks[id].state == BlockState::kCached) state_->Move(id, BlockState::kCached, BlockState::kOwned);
    ++state_->blocks[id].holders;
    hits.push_back(id);
  }
  return hits;
}

uint32_t BlockPool::PeekPrefix(std::span<const Hash128> chain) const {
  absl::MutexLock lock(&mutex_);
  uint32_t hits = 0;
  while (hits < chain.size() && state_->index.contains(chain[hits])) ++hits;
  return hits;
}

void BlockPool::Publish(std::span<const BlockId> blocks, std::span<const Hash128> chain) {
  BATON_CHECK(blocks.size() == chain.size());
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < blocks.size(); ++i) {
    State::Block& block = state_->At(blocks[i], BlockState::kOwned);
    BATON_CHECK(!block.hash || *block.hash == chain[i]);  // a published block is never written again
    const bool is_named = block.hash.has_value();
    block.hash = chain[i];
    if (block.published) continue;
    if (!state_->index.emplace(chain[i], blocks[i]).second) {
      if (!is_named) state_->duplicates[chain[i]].push_back(blocks[i]);
      continue;
    }
    block.published = true;
    state_->Emit(PrefixEvent::Kind::kStored, chain[i]);
  }
}

void BlockPool::DropCache() {
  absl::MutexLock lock(&mutex_);
  while (!state_->cached.empty()) state_->Evict(state_->cached.oldest());
}

BlockCounts BlockPool::counts() const {
  absl::MutexLock lock(&mutex_);
  return state_->counts;
}

BlockPool::PrefixSnapshot BlockPool::SnapshotPrefixes() const {
  absl::MutexLock lock(&mutex_);
  PrefixSnapshot snapshot{{}, state_->sequence};
  snapshot.hashes.reserve(state_->index.size());
  for (const auto& [hash, block] : state_->index) snapshot.hashes.push_back(hash);
  return snapshot;
}

void BlockPool::SetPrefixListener(std::function<void(const PrefixEvent&)> listener) {
  absl::MutexLock lock(&mutex_);
  state_->listener = std::move(listener);
}

}  // namespace baton
