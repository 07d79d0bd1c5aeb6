#pragma once

// How well packed weights predict a text: what rounding weights costs, measured.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/engine/cpu_weights.h"

namespace baton {

struct TextPrediction {
  std::vector<double> log_probabilities;  // natural, of every token but a window's first
  std::vector<TokenId> best;              // the likeliest token there

  double Perplexity() const;
};

// Share of places where both predict the same token; the same windows of the same text.
double Agreement(const TextPrediction& a, const TextPrediction& b);

// Tokens predicted so far and in all; from the calling thread.
using PredictProgress = std::function<void(uint64_t done, uint64_t total)>;

// Cuts `tokens` into windows of `window` (at most what the model takes; the last one may be shorter) that know nothing
// of each other, and predicts each token from those before it in its window. KV is f32, so that weights alone make the
// difference. INVALID_ARGUMENT for fewer than two tokens or one out of the vocabulary.
absl::StatusOr<TextPrediction> PredictText(std::shared_ptr<const CpuWeights> weights, std::span<const TokenId> tokens,
                                           uint32_t window, int threads, const PredictProgress& progress = nullptr);

}  // namespace baton
