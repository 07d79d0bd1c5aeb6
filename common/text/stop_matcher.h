#pragma once

// Finds the first of several stop strings in text that arrives in pieces. Not thread safe.
//
// Text is held back only while it may be the beginning of a stop string: never more, never longer (Aho and Corasick
// 1975). The match that completes first cuts; of several that complete at the same byte, the longest.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"

namespace baton {

// The compiled stop strings of a request, shared by its choices. Immutable.
class StopStrings {
 public:
  // INVALID_ARGUMENT, with the index, for a stop string that is empty or not valid UTF-8.
  static absl::StatusOr<std::shared_ptr<const StopStrings>> Create(std::vector<std::string> stops);

  const std::vector<std::string>& stops() const { return stops_; }

 private:
  friend class StopMatcher;
  struct State {
    absl::flat_hash_map<uint8_t, uint32_t> next;
    uint32_t fallback = 0;
    uint32_t depth = 0;  // bytes of stop string read
    int32_t match = -1;  // longest stop that ends here
  };

  uint32_t Next(uint32_t state, uint8_t byte) const;

  std::vector<std::string> stops_;
  std::vector<State> states_;
};

class StopMatcher {
 public:
  // `include_stop`: the released text ends with the matched stop instead of right before it.
  StopMatcher(std::shared_ptr<const StopStrings> stops, bool include_stop);

  // The text that is now safe to show, in order, nothing twice. After a match always empty.
  std::string Add(std::string_view text);

  // Releases held text: no more will come.
  std::string Finish();

  bool matched() const { return match_ >= 0; }
  // The stop string that cut the text; only after a match.
  const std::string& matched_stop() const { return stops_->stops()[match_]; }
  // Bytes held back.
  size_t held_bytes() const { return held_.size(); }

 private:
  std::shared_ptr<const StopStrings> stops_;
  bool include_stop_;
  uint32_t state_ = 0;
  int32_t match_ = -1;
  std::string held_;
};

}  // namespace baton
