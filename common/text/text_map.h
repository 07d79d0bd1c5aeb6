#pragma once

// A hash map from strings that can be searched with a std::string_view, whichever string_view Abseil was built with.

#include <functional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace baton {

struct TransparentStringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

template <typename Value>
using TextMap = absl::flat_hash_map<std::string, Value, TransparentStringHash, std::equal_to<>>;

}  // namespace baton
