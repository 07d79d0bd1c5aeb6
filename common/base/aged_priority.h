#pragma once

// Priority that grows with waiting, as one number that never has to be updated.
//
// Work of priority p (lower first) that has waited w counts as p - w / aging. Among waiting work everything ages alike,
// so comparing p - (now - arrival) / aging at any moment is comparing arrival + p * aging: a virtual time of arrival.
// What follows: work of priority p is overtaken only by what arrives within (p - q) * aging after it, q being the
// other's priority. After that nothing new goes before it, so an endless stream of urgent work cannot starve it.

#include <algorithm>
#include <cstdint>

#include "common/base/clock.h"

namespace baton {

// Lower goes first; equal ranks by order of arrival. `aging`: the waiting time that is worth one level; zero: priority
// alone, and then urgent work can starve other work for ever.
inline int64_t AgedRank(int64_t priority, TimePoint arrival, Duration aging) {
  if (aging <= Duration::zero()) return priority;
  constexpr int64_t kLevels = 1'000'000;             // keeps the product below 2^62,
  constexpr Duration kMost = std::chrono::hours(1);  // as does this
  return arrival.time_since_epoch().count() + std::clamp(priority, -kLevels, kLevels) * std::min(aging, kMost).count();
}

}  // namespace baton
