#pragma once

// Which prefixes lie on which worker, as the workers' own events told it. Not thread-safe.

#include <cstdint>
#include <span>

#include "absl/container/flat_hash_set.h"
#include "common/base/hash.h"

namespace baton {

// One worker's blocks.
class PrefixIndex {
 public:
  // The whole content as of `sequence`.
  void Reset(std::span<const Hash128> stored, uint64_t sequence);
  // Changes up to `sequence`.
  void Apply(std::span<const Hash128> stored, std::span<const Hash128> removed, uint64_t sequence);
  void Clear();

  // Blocks of `chain`, from its start, that the worker holds.
  uint32_t Match(std::span<const Hash128> chain) const;
  uint64_t sequence() const { return sequence_; }
  size_t size() const { return blocks_.size(); }

 private:
  absl::flat_hash_set<Hash128> blocks_;
  uint64_t sequence_ = 0;
};

}  // namespace baton
