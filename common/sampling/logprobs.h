#pragma once

// Log-probabilities of the raw distribution, before any rule.

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/sampling/sampled_token.h"

namespace baton {

// Reads `logits` (finite or -inf, `max` the largest and finite) on every call; holds no copy.
class RawDistribution {
 public:
  RawDistribution(std::span<const float> logits, float max);

  float Logprob(float logit) const;
  // The `count` likeliest ids, ties to the lower id; fewer when fewer are possible.
  std::vector<TopLogprob> Top(uint32_t count) const;

 private:
  std::span<const float> logits_;
  double max_;
  double log_sum_;  // ln sum exp(l - max)
};

}  // namespace baton
