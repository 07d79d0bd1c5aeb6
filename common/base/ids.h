#pragma once

// Strong ids: a LeaseId cannot be passed where an AttemptId is meant.

#include <compare>
#include <cstdint>
#include <utility>

namespace baton {

template <typename Tag, typename Value>
struct StrongId {
  Value value{};

  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const StrongId& id) {
    return H::combine(std::move(state), id.value);
  }
};

using TokenId = int32_t;   // plain: it is arithmetic data, an index into vocabulary rows
using BlockId = uint32_t;  // plain: an index into the pool

using LeaseId = StrongId<struct LeaseTag, uint64_t>;
using AttemptId = StrongId<struct AttemptTag, uint64_t>;        // random; one try of a request on a pair
using Incarnation = StrongId<struct IncarnationTag, uint64_t>;  // random; one start of a process
using LayoutHash = StrongId<struct LayoutTag, uint64_t>;
using NumericsHash = StrongId<struct NumericsTag, uint64_t>;

}  // namespace baton
