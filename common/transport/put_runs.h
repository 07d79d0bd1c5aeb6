#pragma once

// What every transport does with the runs of a put before it moves a byte.

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/transport/kv_transport.h"

namespace baton {

// OUT_OF_RANGE with the numbers unless each run lies inside a pool of `pool_bytes` and, where it has no pointer, inside
// the source.
absl::Status CheckRuns(std::span<const PutRun> runs, uint64_t pool_bytes, const PutSource& source);

// Whether `next` goes on where `run` ends, in the source and in the target.
bool Continues(const PutRun& run, const PutRun& next);

// Joins runs that continue each other on both sides, drops empty ones, and cuts what is longer than `max_bytes`.
std::vector<PutRun> ArrangeRuns(std::span<const PutRun> runs, uint64_t max_bytes);

}  // namespace baton
