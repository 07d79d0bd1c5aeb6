#pragma once

// The merge loop of byte-pair encoding: again and again the best pair of neighbours becomes one symbol.
//
// A heap of candidate pairs over a linked list of symbols: O(n log n) for n symbols, however they repeat.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"

namespace baton {

inline constexpr TokenId kNoToken = -1;

struct Symbol {
  uint32_t begin = 0;  // bytes of the piece
  uint32_t length = 0;
  TokenId id = kNoToken;  // kNoToken: not in the vocabulary
  int32_t previous = -1, next = -1;
};

struct Merge {
  uint32_t rank = 0;  // lower is merged first
  TokenId id = kNoToken;
};

class SymbolMerger {
 public:
  // Starts a piece.
  void Clear() {
    symbols_.clear();
    heap_.clear();
  }
  void Add(uint32_t begin, uint32_t length, TokenId id) {
    const auto index = static_cast<int32_t>(symbols_.size());
    if (index > 0) symbols_[index - 1].next = index;
    symbols_.push_back({begin, length, id, index - 1, -1});
  }
  // The symbols; after Run those with length > 0 remain, linked by `next` from the first.
  const std::vector<Symbol>& symbols() const { return symbols_; }

  // `find(left, right, &merge)` says whether two neighbours may become one. Of equal ranks the leftmost goes first.
  template <typename Find>
  absl::Status Run(const Find& find, const std::function<bool()>& cancelled) {
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) Consider(find, static_cast<int32_t>(i));
    std::make_heap(heap_.begin(), heap_.end(), LaterMerge{});
    for (size_t steps = 1; !heap_.empty(); ++steps) {
      if (steps % 4096 == 0 && cancelled && cancelled()) return Cancelled("tokenization cancelled");
      std::pop_heap(heap_.begin(), heap_.end(), LaterMerge{});
      const Candidate best = heap_.back();
      heap_.pop_back();
      Symbol& left = symbols_[best.left];
      // A candidate is stale if either side has changed since; both sides together tell by their length.
      if (left.length == 0 || left.next < 0) continue;
      Symbol& right = symbols_[left.next];
      if (left.length != best.left_length || right.length != best.right_length) continue;
      left.length += right.length;
      left.id = best.merge.id;
      left.next = right.next;
      right.length = 0;
      if (left.next >= 0) symbols_[left.next].previous = best.left;
      if (left.previous >= 0) Push(find, left.previous);
      Push(find, best.left);
    }
    return absl::OkStatus();
  }

 private:
  struct Candidate {
    Merge merge;
    int32_t left;
    uint32_t left_length, right_length;
  };
  struct LaterMerge {
    bool operator()(const Candidate& a, const Candidate& b) const {
      return a.merge.rank != b.merge.rank ? a.merge.rank > b.merge.rank : a.left > b.left;
    }
  };

  template <typename Find>
  bool Consider(const Find& find, int32_t left) {
    const Symbol& a = symbols_[left];
    if (a.next < 0) return false;
    const Symbol& b = symbols_[a.next];
    Candidate candidate{{}, left, a.length, b.length};
    if (!find(a, b, &candidate.merge)) return false;
    heap_.push_back(candidate);
    return true;
  }

  template <typename Find>
  void Push(const Find& find, int32_t left) {
    if (Consider(find, left)) std::push_heap(heap_.begin(), heap_.end(), LaterMerge{});
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace baton
