#include "services/cli/bench/open_loop.h"

#include <algorithm>

#include "common/base/status.h"

namespace baton::cli {

uint32_t LoadShape::RequestsAt(double rate) const {
  return requests > 0 ? requests : static_cast<uint32_t>(std::clamp(rate * seconds, 12.0, 400.0));
}

LoadShape ShapeOfLoad(const BenchContext& context, double seconds) {
  const BenchOptions& options = context.options();
  LoadShape shape{context.Pick(256u, 24u), context.Pick(32u, 6u), context.Pick(0u, 5u), seconds};
  if (options.prompt_tokens > 0) shape.prompt_tokens = options.prompt_tokens;
  if (options.output_tokens > 0) shape.output_tokens = options.output_tokens;
  if (options.requests > 0) shape.requests = options.requests;
  return shape;
}

std::vector<BenchRequest> DrawLoad(const LoadShape& shape, double rate, uint32_t vocab, uint64_t seed, uint64_t salt) {
  Draw draw(seed * 1'000'003 + salt);
  const std::vector<double> arrivals = PoissonArrivals(rate, shape.RequestsAt(rate), &draw);
  const auto length = [&](uint32_t mean) {
    return std::clamp(static_cast<uint32_t>(draw.Exponential(mean)), std::max(2u, mean / 4), 3 * mean);
  };
  std::vector<BenchRequest> requests;
  for (const double arrival : arrivals) {
    const uint32_t prompt = length(shape.prompt_tokens), output = length(shape.output_tokens);
    requests.push_back({arrival, draw.Prompt(prompt, vocab), output});
  }
  return requests;
}

absl::StatusOr<double> SaturatedRate(const DeploymentLoad& load, const LoadShape& shape, uint64_t seed) {
  LoadShape eight = shape;
  eight.requests = 8;
  // All at once; once to warm up.
  double rate = 0;
  for (const uint64_t salt : {1001u, 1002u}) {
    const std::vector<RequestTrace> traces = load.Run(DrawLoad(eight, 1e9, load.vocab(), seed, salt));
    BATON_RETURN_IF_ERROR(FirstError(traces));
    rate = 8 / std::max(1e-6, Summarize(traces).seconds);
  }
  return rate;
}

}  // namespace baton::cli
