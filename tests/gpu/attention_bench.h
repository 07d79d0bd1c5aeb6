#pragma once

// Attention kernels by themselves, in the shapes of a step.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/gpu/bench_engine.h"

namespace baton {

// Seconds that one layer's attention takes in a decode step of `tables.size()` rows at position `context`.
absl::StatusOr<double> DecodeAttentionSeconds(const BenchEngine& engine,
                                              const std::vector<std::vector<BlockId>>& tables, uint32_t context);

// ... in a step that reads a prompt of `length` positions.
absl::StatusOr<double> PrefillAttentionSeconds(const BenchEngine& engine, const std::vector<BlockId>& table,
                                               uint32_t length);

}  // namespace baton
