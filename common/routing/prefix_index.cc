#include "common/routing/prefix_index.h"

namespace baton {

void PrefixIndex::Reset(std::span<const Hash128> stored, uint64_t sequence) {
  blocks_.clear();
  blocks_.insert(stored.begin(), stored.end());
  sequence_ = sequence;
}

void PrefixIndex::Apply(std::span<const Hash128> stored, std::span<const Hash128> removed, uint64_t sequence) {
  for (const Hash128& hash : removed) blocks_.erase(hash);
  blocks_.insert(stored.begin(), stored.end());
  sequence_ = sequence;
}

void PrefixIndex::Clear() {
  blocks_.clear();
  sequence_ = 0;
}

uint32_t PrefixIndex::Match(std::span<const Hash128> chain) const {
  uint32_t blocks = 0;
  while (blocks < chain.size() && blocks_.contains(chain[blocks])) ++blocks;
  return blocks;
}

}  // namespace baton
