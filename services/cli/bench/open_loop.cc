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

absl::Status WarmUp(const DeploymentLoad& load, std::vector<BenchRequest> requests) {
  requests.resize(std::min<size_t>(requests.size(), 8));
  for (BenchRequest& request : requests) request.arrival = 0;
  return FirstError(load.Run(requests));
}

absl::StatusOr<double> SaturatedRate(const DeploymentLoad& load, const LoadShape& shape, uint64_t seed) {
  LoadShape eight = shape;
  eight.requests = 8;
  BATON_RETURN_IF_ERROR(WarmUp(load, DrawLoad(eight, 1, load.vocab(), seed, 1001)));
  const std::vector<RequestTrace> traces = load.Run(DrawLoad(eight, 1e9, load.vocab(), seed, 1002));
  BATON_RETURN_IF_ERROR(FirstError(traces));
  return 8 / std::max(1e-6, Summarize(traces).seconds);
}

}  // namespace baton::cli
