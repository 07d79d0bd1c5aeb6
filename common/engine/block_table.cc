#include "common/engine/block_table.h"

#include <utility>

#include "common/base/status.h"

namespace baton {

bool BlockTable::LastIsShared(const BlockPool& pool, uint32_t block_size, uint32_t begin) const {
  // Forks share whole prefixes, so only the block in which writing starts can have other holders.
  return begin % block_size != 0 && pool.IsShared(blocks_[begin / block_size]);
}

uint32_t BlockTable::Missing(const BlockPool& pool, uint32_t block_size, uint32_t begin, uint32_t end) const {
  const size_t wanted = (end + block_size - 1) / block_size;
  size_t needed = wanted > blocks_.size() ? wanted - blocks_.size() : 0;
  if (LastIsShared(pool, block_size, begin)) ++needed;
  return static_cast<uint32_t>(needed > spares_.size() ? needed - spares_.size() : 0);
}

void BlockTable::MakeWritable(BlockPool* pool, uint32_t block_size, uint32_t begin, uint32_t end,
                              std::vector<BlockCopy>* copies) {
  const auto take_spare = [this] {
    BATON_CHECK(!spares_.empty());
    const BlockId block = spares_.front();
    spares_.erase(spares_.begin());
    return block;
  };
  if (LastIsShared(*pool, block_size, begin)) {
    BlockId& shared = blocks_[begin / block_size];
    const BlockId copy = take_spare();
    copies->push_back({shared, copy});
    pool->Release({&shared, 1});
    shared = copy;
  }
  const size_t wanted = (end + block_size - 1) / block_size;
  while (blocks_.size() < wanted) blocks_.push_back(take_spare());
}

BlockTable BlockTable::ShareFirst(BlockPool* pool, uint32_t count) const {
  BlockTable fork;
  fork.Append(blocks().first(count));
  pool->Share(fork.blocks_);
  return fork;
}

void BlockTable::ReleaseAll(BlockPool* pool) {
  pool->Release(spares_);
  pool->Release(blocks_);
  spares_.clear();
  blocks_.clear();
}

std::vector<BlockId> BlockTable::Take() {
  BATON_CHECK(spares_.empty());
  return std::exchange(blocks_, {});
}

}  // namespace baton
