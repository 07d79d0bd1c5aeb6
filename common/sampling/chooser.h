#pragma once

// The choice of one token from logits, after the rules: greedy, or a draw under temperature, top_k, top_p and min_p.
// Logits are read once to find their maxima; after that only what can still be chosen is looked at, and only a draw
// without top_k and min_p adds up all of them. What it gives is that of the plain algorithm: all weights, all filters,
// a draw over all ids.

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/sampling/params.h"
#include "common/sampling/weights.h"

namespace baton {

// Keeps its memory from call to call. Not thread-safe.
class Chooser {
 public:
  // `random` are 64 uniform bits. NaN and infinite logits are impossible; -1 when all are.
  TokenId Choose(std::span<const float> logits, const SamplingParams& params, uint64_t random);

 private:
  struct Request {
    std::span<const float> logits;
    float max;
    float temperature;
    uint64_t random;
  };

  TokenId First(std::span<const float> logits, float max) const;
  TokenId DrawFromAll(const Request& request);
  TokenId DrawFromCandidates(const Request& request, KeptPrefix kept) const;
  // Fills ids_ and weights_ with everything that weighs at least `least`, ids ascending; returns its mass.
  uint64_t Collect(const Request& request, float least);
  // What the lightest of the k heaviest weighs at least.
  float BoundOfTopK(const Request& request, uint32_t k);

  std::vector<float> maxima_;     // of the logits' blocks
  std::vector<float> sorted_;     // for BoundOfTopK
  std::vector<uint64_t> masses_;  // of the logits' blocks
  std::vector<TokenId> ids_;
  std::vector<float> weights_;
};

// At and below this temperature a draw is greedy; ties then go to the lower id as they do at 0.
inline constexpr float kGreedyTemperature = 1e-4f;

inline bool IsGreedy(const SamplingParams& params) {
  return params.temperature <= kGreedyTemperature || params.top_k == 1 || params.top_p <= 0.0f;
}

}  // namespace baton
