#pragma once

// What a step costs, learned from the steps that were run:
//   seconds = base + a * decodes + b * prompt tokens + c * attended positions, none of them negative.
//
// Least squares of relative errors over two windows, of the last steps with and without prompt tokens, so that a long
// time of decoding does not forget what prompts cost; a step that took far longer than predicted weighs little. A
// margin covers what the line does not: it follows the 95th percentile of actual / predicted. Not thread-safe, no
// clock.

#include <array>
#include <cstdint>

#include "common/base/clock.h"

namespace baton {

struct StepShape {
  uint32_t decodes = 0;        // sequences that run their last token
  uint32_t prompt_tokens = 0;  // all other tokens
  uint64_t attended = 0;       // positions read by attention, summed over all tokens

  void AddRun(uint32_t begin, uint32_t end, bool is_decode) {
    const uint64_t tokens = end - begin;
    (is_decode ? decodes : prompt_tokens) += static_cast<uint32_t>(tokens);
    attended += tokens * begin + tokens * (tokens + 1) / 2;
  }
};

class StepCost {
 public:
  // Zero as long as nothing was observed.
  Duration Predict(const StepShape& shape) const;
  // Takes a finished step into account; ignores durations that are not positive.
  void Observe(const StepShape& shape, Duration actual);

  // The most tokens, at most `limit`, that a prompt at `position` can add to `shape` so that the step stays within
  // `target` in 95 of 100 cases. Never more than twice the prompt tokens of any step in the window: the line is not
  // trusted far from what it was drawn through.
  uint32_t PromptTokensWithin(Duration target, const StepShape& shape, uint32_t position, uint32_t limit) const;

  // Swapping, each direction alike.
  void ObserveSwap(uint32_t blocks, Duration actual);
  // Moving `blocks` out and in again costs less than running `tokens` once more. True as long as either is unknown: a
  // copy reads each byte once, a model its weights for every few.
  bool SwapIsCheaper(uint32_t blocks, uint32_t tokens) const;

  double margin() const { return margin_; }

 private:
  static constexpr uint32_t kFeatures = 4;
  static constexpr uint32_t kWindow = 64;
  using Features = std::array<double, kFeatures>;
  struct Sample {
    Features features{};
    double seconds = 0;
    double weight = 0;  // 0: none yet
  };
  struct Window {
    std::array<Sample, kWindow> samples;
    uint32_t next = 0;
  };

  static Features FeaturesOf(const StepShape& shape);
  double SecondsOf(const Features& features) const;
  void Fit();

  Features weights_{};  // seconds for each feature
  Window with_prompts_, without_prompts_;
  uint64_t observed_ = 0;
  uint32_t most_prompt_tokens_ = 0;  // in with_prompts_
  double margin_ = 1.1;
  double swap_seconds_ = 0;  // a block, one way; 0: unknown
};

}  // namespace baton
