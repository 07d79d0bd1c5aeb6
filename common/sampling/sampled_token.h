#pragma once

// What sampling gives: plain values, as they travel from engine to router.

#include <vector>

#include "common/base/ids.h"
#include "common/sampling/params.h"

namespace baton {

struct TopLogprob {
  TokenId id;
  float logprob;
  friend bool operator==(const TopLogprob&, const TopLogprob&) = default;
};

// Log-probabilities are of the model's raw distribution (log-softmax of the logits before any rule).
struct SampledToken {
  TokenId id = 0;
  float logprob = 0;  // set when params.logprobs is
  std::vector<TopLogprob>
      top;  // params.logprobs entries (fewer if fewer ids are possible), descending, ties to the lower id
  FinishReason finish = FinishReason::kNone;  // kStop for a stop or eos id, kLength at max_tokens
  friend bool operator==(const SampledToken&, const SampledToken&) = default;
};

}  // namespace baton
