#include "common/kv/block_pool.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "common/base/block_hash.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Hash128 H(uint64_t value) { return Hash128{value, ~value}; }

std::vector<Hash128> Chain(std::initializer_list<uint64_t> values) {
  std::vector<Hash128> chain;
  for (const uint64_t value : values) chain.push_back(H(value));
  return chain;
}

// Allocates, publishes and releases one block for each hash.
std::vector<BlockId> Cache(BlockPool& pool, const std::vector<Hash128>& chain) {
  auto blocks = pool.Allocate(chain.size()).value();
  pool.Publish(blocks, chain);
  pool.Release(blocks);
  return blocks;
}

TEST(BlockPool, StartsWithEveryBlockFree) {
  BlockPool pool(8);
  const BlockCounts counts = pool.counts();
  EXPECT_EQ(counts.free, 8u);
  EXPECT_EQ(counts.total(), 8u);
  EXPECT_EQ(pool.size(), 8u);
}

TEST(BlockPool, RefusedAllocationTakesNothingAndSaysTheNumbers) {
  BlockPool pool(4);
  ASSERT_TRUE(pool.Allocate(3).ok());
  const auto refused = pool.Allocate(2);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusMessage(refused.status()), HasSubstr("2 KV blocks needed, 1 of 4 available"));
  EXPECT_EQ(pool.counts().free, 1u);
  EXPECT_EQ(pool.counts().owned, 3u);
}

TEST(BlockPool, HandsOutAdjacentBlocksInAscendingOrder) {
  BlockPool pool(8);
  const auto first = pool.Allocate(4).value();
  EXPECT_THAT(first, ElementsAre(0, 1, 2, 3));
  pool.Release(first);
  EXPECT_THAT(pool.Lease(6).value(), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(BlockPool, LastHolderFreesAnUnpublishedBlock) {
  BlockPool pool(2);
  const auto blocks = pool.Allocate(1).value();
  EXPECT_FALSE(pool.IsShared(blocks[0]));
  pool.Share(blocks);
  EXPECT_TRUE(pool.IsShared(blocks[0]));
  pool.Release(blocks);
  EXPECT_EQ(pool.counts().owned, 1u);
  pool.Release(blocks);
  EXPECT_EQ(pool.counts().free, 2u);
}

TEST(BlockPool, LastHolderSendsAPublishedBlockToTheCache) {
  BlockPool pool(4);
  const auto blocks = Cache(pool, Chain({1, 2}));
  EXPECT_EQ(pool.counts().cached, 2u);
  EXPECT_EQ(pool.PeekPrefix(Chain({1, 2, 3})), 2u);
  EXPECT_EQ(pool.MatchPrefix(Chain({1, 2, 3})), blocks);
  EXPECT_EQ(pool.counts().owned, 2u);
  EXPECT_EQ(pool.counts().cached, 0u);
}

TEST(BlockPool, MatchStopsAtTheFirstMiss) {
  BlockPool pool(4);
  Cache(pool, Chain({1, 2}));
  EXPECT_THAT(pool.MatchPrefix(Chain({9, 1, 2})), IsEmpty());
  EXPECT_EQ(pool.PeekPrefix(Chain({1, 9, 2})), 1u);
}

TEST(BlockPool, MatchOfAHeldBlockAddsAHolder) {
  BlockPool pool(4);
  const auto blocks = pool.Allocate(1).value();
  pool.Publish(blocks, Chain({1}));
  EXPECT_EQ(pool.MatchPrefix(Chain({1})), blocks);
  EXPECT_TRUE(pool.IsShared(blocks[0]));
}

// Cached, released as [a b c] and then [d]:   oldest  c  b  a  d  newest
TEST(BlockPool, EvictsLeastRecentlyUsedLeavesFirst) {
  BlockPool pool(4);
  Cache(pool, Chain({1, 2, 3}));
  Cache(pool, Chain({4}));
  ASSERT_TRUE(pool.Allocate(1).ok());
  EXPECT_EQ(pool.PeekPrefix(Chain({1, 2, 3})), 2u);
  EXPECT_EQ(pool.PeekPrefix(Chain({4})), 1u);
  ASSERT_TRUE(pool.Lease(2).ok());
  EXPECT_EQ(pool.PeekPrefix(Chain({1})), 0u);
  EXPECT_EQ(pool.PeekPrefix(Chain({4})), 1u);
}

TEST(BlockPool, AHitMakesAPrefixRecent) {
  BlockPool pool(3);
  Cache(pool, Chain({1}));
  Cache(pool, Chain({2}));
  Cache(pool, Chain({3}));
  pool.Release(pool.MatchPrefix(Chain({1})));
  ASSERT_TRUE(pool.Allocate(1).ok());
  EXPECT_EQ(pool.PeekPrefix(Chain({1})), 1u);
  EXPECT_EQ(pool.PeekPrefix(Chain({2})), 0u);
}

TEST(BlockPool, NeverEvictsABlockSomeoneHolds) {
  BlockPool pool(2);
  Cache(pool, Chain({1, 2}));
  const auto held = pool.MatchPrefix(Chain({1, 2}));
  EXPECT_EQ(pool.Allocate(1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.PeekPrefix(Chain({1, 2})), 2u);
}

TEST(BlockPool, DuplicateContentStaysUnpublishedAndGoesFree) {
  BlockPool pool(4);
  const auto first = pool.Allocate(1).value();
  const auto second = pool.Allocate(1).value();
  pool.Publish(first, Chain({1}));
  pool.Publish(second, Chain({1}));
  pool.Release(second);
  EXPECT_EQ(pool.counts().free, 3u);
  EXPECT_EQ(pool.counts().cached, 0u);
  EXPECT_EQ(pool.MatchPrefix(Chain({1})), first);
}

// a is the published block, a' its duplicate, b hangs on a': evicting a before b would leave b unreachable.
TEST(BlockPool, PrefixOfADuplicateOutlivesItsLeaf) {
  BlockPool pool(3);
  Cache(pool, Chain({1}));
  const auto duplicate = pool.Allocate(2).value();
  pool.Publish(duplicate, Chain({1, 2}));
  pool.Release(duplicate);
  ASSERT_EQ(pool.counts().cached, 2u);
  ASSERT_TRUE(pool.Allocate(2).ok());
  EXPECT_EQ(pool.PeekPrefix(Chain({1, 2})), 1u);
}

TEST(BlockPool, PublishingTwiceChangesNothing) {
  BlockPool pool(2);
  const auto blocks = pool.Allocate(1).value();
  pool.Publish(blocks, Chain({1}));
  pool.Publish(blocks, Chain({1}));
  EXPECT_EQ(pool.SnapshotPrefixes().sequence, 1u);
}

TEST(BlockPool, DropCacheFreesCachedBlocksAndKeepsHeldOnes) {
  BlockPool pool(4);
  Cache(pool, Chain({1, 2}));
  const auto held = pool.MatchPrefix(Chain({1}));
  pool.DropCache();
  EXPECT_EQ(pool.counts().cached, 0u);
  EXPECT_EQ(pool.counts().free, 3u);
  EXPECT_EQ(pool.PeekPrefix(Chain({1, 2})), 1u);
}

TEST(BlockPool, LeasedBlocksAreOwnedAfterCommit) {
  BlockPool pool(4);
  const auto blocks = pool.Lease(2).value();
  EXPECT_EQ(pool.counts().leased, 2u);
  pool.CommitLease(blocks);
  EXPECT_EQ(pool.counts().owned, 2u);
  pool.Release(blocks);
  EXPECT_EQ(pool.counts().free, 4u);
}

TEST(BlockPool, QuarantinedBlocksAreNotAvailable) {
  BlockPool pool(4);
  const auto blocks = pool.Lease(3).value();
  pool.Quarantine(blocks);
  EXPECT_EQ(pool.counts().quarantined, 3u);
  EXPECT_EQ(pool.Allocate(2).status().code(), absl::StatusCode::kResourceExhausted);
  pool.FreeQuarantined(blocks);
  EXPECT_EQ(pool.counts().free, 4u);
}

TEST(BlockPool, FreedLeaseIsFree) {
  BlockPool pool(4);
  pool.FreeLease(pool.Lease(4).value());
  EXPECT_EQ(pool.counts().free, 4u);
}

TEST(BlockPool, PrefixEventsHaveNoHolesAndReplayToTheSnapshot) {
  BlockPool pool(3);
  Cache(pool, Chain({1}));
  const auto start = pool.SnapshotPrefixes();
  std::set<Hash128> replayed(start.hashes.begin(), start.hashes.end());
  uint64_t last = start.sequence;
  pool.SetPrefixListener([&](const PrefixEvent& event) {
    EXPECT_EQ(event.sequence, ++last);
    if (event.kind == PrefixEvent::Kind::kStored) {
      EXPECT_TRUE(replayed.insert(event.hash).second);
    } else {
      EXPECT_EQ(replayed.erase(event.hash), 1u);
    }
  });
  for (uint64_t i = 2; i < 20; ++i) Cache(pool, Chain({i, i + 100}));
  const auto end = pool.SnapshotPrefixes();
  EXPECT_EQ(end.sequence, last);
  EXPECT_EQ(std::set<Hash128>(end.hashes.begin(), end.hashes.end()), replayed);
  pool.SetPrefixListener({});
  pool.DropCache();
  EXPECT_GT(pool.SnapshotPrefixes().sequence, last);
}

// I1 under random use, against holders counted by the test.
TEST(BlockPool, CountsAlwaysAddUpToThePool) {
  constexpr uint32_t kBlocks = 24;
  BlockPool pool(kBlocks);
  std::mt19937 random(7);
  std::vector<std::vector<BlockId>> held, leased, quarantined;
  uint64_t next_hash = 0;
  const auto pick = [&](std::vector<std::vector<BlockId>>& from) {
    std::swap(from[random() % from.size()], from.back());
    auto taken = from.back();
    from.pop_back();
    return taken;
  };
  for (int i = 0; i < 20000; ++i) {
    const uint32_t count = 1 + random() % 4;
    switch (random() % 9) {
      case 0:
        if (auto blocks = pool.Allocate(count); blocks.ok()) held.push_back(*blocks);
        break;
      case 1:
        if (auto blocks = pool.Lease(count); blocks.ok()) leased.push_back(*blocks);
        break;
      case 2:
      case 3:
        if (!held.empty()) pool.Release(pick(held));
        break;
      case 4:
        if (!held.empty()) {
          const auto& blocks = held[random() % held.size()];
          pool.Share(blocks);
          held.push_back(blocks);
        }
        break;
      case 5:
        if (auto blocks = pool.Allocate(count); blocks.ok()) {
          std::vector<Hash128> chain;
          for (uint32_t j = 0; j < count; ++j) chain.push_back(H(++next_hash % 40));
          pool.Publish(*blocks, chain);
          held.push_back(*blocks);
        }
        break;
      case 6:
        if (auto blocks = pool.MatchPrefix(std::vector{H(random() % 40), H(random() % 40)}); !blocks.empty()) {
          held.push_back(blocks);
        }
        break;
      case 7:
        if (!leased.empty()) {
          auto blocks = pick(leased);
          if (random() % 3 == 0) {
            pool.CommitLease(blocks);
            held.push_back(blocks);
          } else if (random() % 2 == 0) {
            pool.FreeLease(blocks);
          } else {
            pool.Quarantine(blocks);
            quarantined.push_back(blocks);
          }
        }
        break;
      case 8:
        if (!quarantined.empty()) pool.FreeQuarantined(pick(quarantined));
        break;
    }
    std::set<BlockId> owned, in_lease, in_quarantine;
    for (const auto& blocks : held) owned.insert(blocks.begin(), blocks.end());
    for (const auto& blocks : leased) in_lease.insert(blocks.begin(), blocks.end());
    for (const auto& blocks : quarantined) in_quarantine.insert(blocks.begin(), blocks.end());
    const BlockCounts counts = pool.counts();
    ASSERT_EQ(counts.total(), kBlocks);
    ASSERT_EQ(counts.owned, owned.size());
    ASSERT_EQ(counts.leased, in_lease.size());
    ASSERT_EQ(counts.quarantined, in_quarantine.size());
    for (const BlockId id : in_lease) ASSERT_FALSE(owned.contains(id) || in_quarantine.contains(id));
  }
}

// Sequences over a small tree of prefixes, some of which compute what others compute at the same time.
TEST(BlockPool, OnlyLeavesThatNobodyHoldsAreEvicted) {
  uint64_t evictions = 0, duplicates = 0;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    BlockPool pool(6 + random() % 20);
    std::map<Hash128, int> stored_children;
    std::map<Hash128, Hash128> parents;
    pool.SetPrefixListener([&](const PrefixEvent& event) {
      const bool stored = event.kind == PrefixEvent::Kind::kStored;
      if (!stored) {
        ++evictions;
        EXPECT_EQ(stored_children[event.hash], 0) << "evicted before what hangs on it";
      }
      if (const auto parent = parents.find(event.hash); parent != parents.end()) {
        stored_children[parent->second] += stored ? 1 : -1;
      }
    });
    std::vector<std::vector<BlockId>> held;
    for (int round = 0; round < 400; ++round) {
      if (!held.empty() && random() % 2 == 0) {
        std::swap(held[random() % held.size()], held.back());
        pool.Release(held.back());
        held.pop_back();
        continue;
      }
      std::vector<TokenId> tokens;
      for (uint32_t depth = 1 + random() % 5; depth > 0; --depth) tokens.push_back(static_cast<TokenId>(random() % 2));
      const std::vector<Hash128> chain = HashBlockChain(tokens, 1, "");
      for (size_t i = 1; i < chain.size(); ++i) parents.emplace(chain[i], chain[i - 1]);
      std::vector<BlockId> blocks;
      if (random() % 3 != 0) blocks = pool.MatchPrefix(chain);
      const auto fresh = pool.Allocate(static_cast<uint32_t>(chain.size() - blocks.size()));
      if (!fresh.ok()) {
        pool.Release(blocks);
        continue;
      }
      for (const auto& others : held) {
        for (const BlockId block : *fresh) EXPECT_EQ(std::count(others.begin(), others.end(), block), 0);
      }
      blocks.insert(blocks.end(), fresh->begin(), fresh->end());
      const uint32_t before = pool.PeekPrefix(chain);
      pool.Publish(blocks, chain);
      EXPECT_EQ(pool.PeekPrefix(chain), chain.size());
      duplicates += before > chain.size() - fresh->size();
      held.push_back(blocks);
    }
    for (const auto& blocks : held) pool.Release(blocks);
    EXPECT_EQ(pool.counts().available(), pool.size());
    pool.DropCache();
    EXPECT_EQ(pool.counts().free, pool.size());
    EXPECT_TRUE(pool.SnapshotPrefixes().hashes.empty());
    pool.SetPrefixListener(nullptr);
  }
  EXPECT_GT(evictions, 1000u);  // else this says nothing
  EXPECT_GT(duplicates, 100u);
}

TEST(BlockPool, ThreadsSeeConsistentCounts) {
  BlockPool pool(64);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (uint64_t i = 0; i < 500; ++i) {
        Cache(pool, Chain({i, t * 1000 + i}));
        pool.Release(pool.MatchPrefix(Chain({i})));
        EXPECT_EQ(pool.counts().total(), 64u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.counts().owned, 0u);
}

}  // namespace
}  // namespace baton
