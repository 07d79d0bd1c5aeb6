#include "common/sampling/logprobs.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/base/fixed_math.h"
#include "common/sampling/weights.h"

namespace baton {

RawDistribution::RawDistribution(std::span<const float> logits, float max) : logits_(logits), max_(max) {
  uint64_t mass = 0;
  std::array<float, 1024> weights;  // piecewise, so that the exponentials are vectorised
  for (size_t begin = 0; begin < logits.size(); begin += weights.size()) {
    const auto piece = logits.subspan(begin, std::min(weights.size(), logits.size() - begin));
    for (size_t i = 0; i < piece.size(); ++i) weights[i] = ExpNonPositive(piece[i] - max);
    for (size_t i = 0; i < piece.size(); ++i) mass += WeightMass(weights[i]);
  }
  log_sum_ = Log(static_cast<double>(mass) / kMassUnits);
}

float RawDistribution::Logprob(float logit) const { return static_cast<float>((logit - max_) - log_sum_); }

std::vector<TopLogprob> RawDistribution::Top(uint32_t count) const {
  std::vector<TopLogprob> top;  // holds logits while it is being filled
  if (count == 0) return top;
  float smallest = -std::numeric_limits<float>::infinity();
  for (size_t id = 0; id < logits_.size(); ++id) {
    if (!(logits_[id] > smallest)) continue;  // an equal logit of a higher id does not push out a lower one
    const auto place = std::upper_bound(top.begin(), top.end(), logits_[id],
                                        [](float logit, const TopLogprob& entry) { return logit > entry.logprob; });
    top.insert(place, {static_cast<TokenId>(id), logits_[id]});
    if (top.size() > count) top.pop_back();
    if (top.size() == count) smallest = top.back().logprob;
  }
  for (TopLogprob& entry : top) entry.logprob = Logprob(entry.logprob);
  return top;
}

}  // namespace baton
