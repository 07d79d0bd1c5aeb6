#pragma once

// Time of work on a device by the host's clock: what is asked for is a step, or a queue of kernels that is long enough
// for the host's part of it not to matter.

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/device/stream.h"

namespace baton {

struct Rounds {
  int rounds = 20;        // at least; the median counts
  double seconds = 0.25;  // and so long
  int at_once = 1;        // calls enqueued before each wait
};

// Median seconds of a call of `enqueue`, whose work is in `stream` or over when it returns; a first round is not
// counted.
inline absl::StatusOr<double> SecondsOf(const device::Stream& stream, const Rounds& rounds,
                                        const std::function<absl::Status()>& enqueue) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  for (int round = -1; round < rounds.rounds || since(begin) < rounds.seconds; ++round) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < rounds.at_once; ++i) BATON_RETURN_IF_ERROR(enqueue());
    BATON_RETURN_IF_ERROR(stream.Synchronize());
    if (round >= 0) times.push_back(since(start) / rounds.at_once);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace baton
