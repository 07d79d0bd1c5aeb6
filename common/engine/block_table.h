#pragma once

// The KV blocks of one sequence in the order of positions. Owes the pool one Release for every block it lists and for
// every spare; ReleaseAll pays it. Not thread-safe; the step thread's.

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/kv/block_pool.h"

namespace baton {

struct BlockCopy {
  enum class Kind : uint8_t { kWithinPool, kSwapOut, kSwapIn };
  uint32_t from;  // a block; for kSwapIn a slot of the swap area
  uint32_t to;    // a block; for kSwapOut a slot of the swap area
  Kind kind = Kind::kWithinPool;
};

class BlockTable {
 public:
  std::span<const BlockId> blocks() const { return blocks_; }

  void Append(std::span<const BlockId> blocks) { blocks_.insert(blocks_.end(), blocks.begin(), blocks.end()); }
  // Blocks for growth, used before any are allocated.
  void AddSpares(std::span<const BlockId> blocks) { spares_.insert(spares_.end(), blocks.begin(), blocks.end()); }

  // Blocks to add as spares before positions [begin, end) can be written; everything before `begin` is there already.
  uint32_t Missing(const BlockPool& pool, uint32_t block_size, uint32_t begin, uint32_t end) const;
  // Makes [begin, end) writable: grows into the spares and replaces a shared last block by a copy. Missing() must be 0.
  // The copies must be made, in order, before the step writes anything.
  void MakeWritable(BlockPool* pool, uint32_t block_size, uint32_t begin, uint32_t end, std::vector<BlockCopy>* copies);

  // The first `count` blocks with one more holder each, for a fork.
  BlockTable ShareFirst(BlockPool* pool, uint32_t count) const;
  void ReleaseAll(BlockPool* pool);
  // Gives the blocks (spares excepted: they must be none) away.
  std::vector<BlockId> Take();

 private:
  bool LastIsShared(const BlockPool& pool, uint32_t block_size, uint32_t begin) const;

  std::vector<BlockId> blocks_;
  std::vector<BlockId> spares_;
};

}  // namespace baton
