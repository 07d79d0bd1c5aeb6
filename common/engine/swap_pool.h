#pragma once

// Slots of the runner's host swap area: which are taken. Knows nothing of bytes. Not thread-safe; the step thread's.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace baton {

using SwapSlot = uint32_t;  // plain: an index into the swap area, of a block each

class SwapPool {
 public:
  explicit SwapPool(uint32_t slots) : size_(slots) {
    free_.reserve(slots);
    for (SwapSlot slot = slots; slot > 0; --slot) free_.push_back(slot - 1);
  }

  // nullopt when fewer than `count` are free; then none is taken.
  std::optional<std::vector<SwapSlot>> Take(uint32_t count) {
    if (count > free_.size()) return std::nullopt;
    std::vector<SwapSlot> taken(free_.end() - count, free_.end());
    free_.resize(free_.size() - count);
    return taken;
  }
  void Give(std::span<const SwapSlot> slots) { free_.insert(free_.end(), slots.begin(), slots.end()); }

  uint32_t size() const { return size_; }
  uint32_t used() const { return size_ - static_cast<uint32_t>(free_.size()); }

 private:
  const uint32_t size_;
  std::vector<SwapSlot> free_;  // a stack
};

}  // namespace baton
