#pragma once

// Requests that arrive whether or not the service keeps up, and what became of them.

#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/bench/bench.h"
#include "services/cli/bench/deployment_load.h"

namespace baton::cli {

// What --prompt_tokens, --output_tokens and --requests say, or the bench's own.
struct LoadShape {
  uint32_t prompt_tokens, output_tokens;
  uint32_t requests;  // 0: what arrives in `seconds`, so that a run's time does not depend on the machine's speed
  double seconds;

  // At `rate` a second; at least a few, at most some hundred when drawn by time.
  uint32_t RequestsAt(double rate) const;
};
// `seconds` of arrivals at each rate, where --requests does not say how many.
LoadShape ShapeOfLoad(const BenchContext& context, double seconds);

// Poisson arrivals at `rate` a second; lengths exponential around the shape's means. `salt` tells runs apart, so that
// no prompt was seen before.
std::vector<BenchRequest> DrawLoad(const LoadShape& shape, double rate, uint32_t vocab, uint64_t seed, uint64_t salt);

// The first eight of these at once, so that connections stand and pages are there before anything counts.
absl::Status WarmUp(const DeploymentLoad& load, std::vector<BenchRequest> requests);

// Requests a second that the service finishes of eight at once, after a warm-up.
absl::StatusOr<double> SaturatedRate(const DeploymentLoad& load, const LoadShape& shape, uint64_t seed);

}  // namespace baton::cli
