#include "common/engine/step_cost.h"

#include <algorithm>

namespace baton {
namespace {

constexpr double kAttendedUnit = 1000;  // brings the features to like sizes
constexpr double kPull = 1e-3;          // towards the last fit, where the samples leave a choice
constexpr int kSweeps = 20;

// Seeks the percentile where steps up and down balance.
constexpr double kPercentile = 0.95;
constexpr double kMarginStep = 0.05;
constexpr double kLeastMargin = 1, kMostMargin = 2;

constexpr double kOutlier = 2;  // times what was predicted
constexpr uint32_t kFirstPromptTokens = 16;

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

StepCost::Features StepCost::FeaturesOf(const StepShape& shape) {
  return {1, static_cast<double>(shape.decodes), static_cast<double>(shape.prompt_tokens),
          static_cast<double>(shape.attended) / kAttendedUnit};
}

double StepCost::SecondsOf(const Features& features) const {
  double seconds = 0;
  for (uint32_t i = 0; i < kFeatures; ++i) seconds += weights_[i] * features[i];
  return seconds;
}

Duration StepCost::Predict(const StepShape& shape) const { return FromSeconds(SecondsOf(FeaturesOf(shape))); }

void StepCost::Observe(const StepShape& shape, Duration actual) {
  if (actual <= Duration::zero()) return;
  Sample sample{FeaturesOf(shape), Seconds(actual), 0};
  sample.weight = 1 / (sample.seconds * sample.seconds);
  if (const double predicted = SecondsOf(sample.features); observed_ > 0 && predicted > 0) {
    const double ratio = sample.seconds / predicted;
    margin_ += kMarginStep * (ratio > margin_ ? kPercentile : kPercentile - 1);
    margin_ = std::clamp(margin_, kLeastMargin, kMostMargin);
    if (ratio > kOutlier) sample.weight *= kOutlier / ratio;
  }
  Window& window = shape.prompt_tokens > 0 ? with_prompts_ : without_prompts_;
  window.samples[window.next++ % kWindow] = sample;
  ++observed_;
  Fit();
}

// Coordinate descent on the normal equations, never below zero.
void StepCost::Fit() {
  double products[kFeatures][kFeatures] = {};
  double moments[kFeatures] = {};
  double most_prompt_tokens = 0;
  for (const Window* window : {&with_prompts_, &without_prompts_}) {
    for (const Sample& sample : window->samples) {
      if (sample.weight == 0) continue;
      most_prompt_tokens = std::max(most_prompt_tokens, sample.features[2]);
      for (uint32_t i = 0; i < kFeatures; ++i) {
        const double weighted = sample.weight * sample.features[i];
        moments[i] += weighted * sample.seconds;
        for (uint32_t j = 0; j < kFeatures; ++j) products[i][j] += weighted * sample.features[j];
      }
    }
  }
  most_prompt_tokens_ = static_cast<uint32_t>(most_prompt_tokens);
  const Features last = weights_;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (uint32_t i = 0; i < kFeatures; ++i) {
      if (products[i][i] == 0) continue;  // never seen
      const double pull = kPull * products[i][i];
      double rest = moments[i] + pull * last[i];
      for (uint32_t j = 0; j < kFeatures; ++j) {
        if (j != i) rest -= products[i][j] * weights_[j];
      }
      weights_[i] = std::max(0.0, rest / (products[i][i] + pull));
    }
  }
}

uint32_t StepCost::PromptTokensWithin(Duration target, const StepShape& shape, uint32_t position,
                                      uint32_t limit) const {
  const uint32_t trusted = std::max(kFirstPromptTokens, 2 * most_prompt_tokens_);
  const auto fits = [&](uint32_t tokens) {
    StepShape with = shape;
    with.AddRun(position, position + tokens, false);
    return with.prompt_tokens <= trusted && margin_ * SecondsOf(FeaturesOf(with)) <= Seconds(target);
  };
  uint32_t most = 0;  // fits; what lies above `limit` does not matter
  while (most < limit) {
    const uint32_t middle = most + (limit - most + 1) / 2;
    if (fits(middle)) {
      most = middle;
    } else {
      limit = middle - 1;
    }
  }
  return most;
}

void StepCost::ObserveSwap(uint32_t blocks, Duration actual) {
  if (blocks == 0 || actual <= Duration::zero()) return;
  const double seconds = Seconds(actual) / blocks;
  swap_seconds_ = swap_seconds_ == 0 ? seconds : 0.75 * swap_seconds_ + 0.25 * seconds;
}

bool StepCost::SwapIsCheaper(uint32_t blocks, uint32_t tokens) const {
  StepShape prompt;
  prompt.AddRun(0, tokens, false);
  Features marginal = FeaturesOf(prompt);
  marginal[0] = 0;  // its chunks run beside what runs anyway
  const double recompute = SecondsOf(marginal);
  return recompute == 0 || swap_seconds_ == 0 || 2 * blocks * swap_seconds_ < recompute;
}

}  // namespace baton
