#include "common/sampling/chooser.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "common/base/fixed_math.h"
#include "common/sampling/logit_blocks.h"

namespace baton {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr float kLeastWeight = 1.0f / kMassUnits;  // as KeptPrefix has it
// Most of a top_p set weighs more: the likely tokens of a language model are few.
constexpr float kLikelyWeight = 1.0f / 4096;
// Memory for more is given back: every running sequence has a chooser.
constexpr size_t kKeptCandidates = 8192;

}  // namespace

TokenId Chooser::Choose(std::span<const float> logits, const SamplingParams& params, uint64_t random) {
  maxima_.resize(LogitBlocks(logits.size()));
  BlockMaxima(logits, maxima_);
  const float max = maxima_.empty() ? kImpossible : *std::max_element(maxima_.begin(), maxima_.end());
  if (max == kImpossible) return -1;
  if (IsGreedy(params)) return First(logits, max);

  const Request request{logits, max, params.temperature, random};
  KeptPrefix kept;
  if (params.top_k > 0 && params.top_k < logits.size()) {
    Collect(request, BoundOfTopK(request, params.top_k));
    kept = KeepTopK(weights_, kept, params.top_k);
    kept = KeepTopP(weights_, kept, params.top_p);
  } else if (params.top_p < 1.0f) {
    masses_.resize(maxima_.size());
    const uint64_t goal = ShareOfMass(BlockMasses(logits, maxima_, max, params.temperature, masses_), params.top_p);
    if (Collect(request, kLikelyWeight) < goal) Collect(request, kLeastWeight);
    kept = KeepMass(weights_, kept, goal);
  } else if (params.min_p > kLeastWeight) {
    Collect(request, params.min_p);
  } else {
    return DrawFromAll(request);
  }
  const TokenId id = DrawFromCandidates(request, KeepMinP(kept, params.min_p));
  if (ids_.size() > kKeptCandidates) {
    ids_ = {};
    weights_ = {};
  }
  return id;
}

TokenId Chooser::First(std::span<const float> logits, float max) const {
  const auto block = std::find(maxima_.begin(), maxima_.end(), max) - maxima_.begin();
  const auto begin = logits.begin() + block * static_cast<std::ptrdiff_t>(kLogitBlock);
  return static_cast<TokenId>(std::find(begin, logits.end(), max) - logits.begin());
}

float Chooser::BoundOfTopK(const Request& request, uint32_t k) {
  // k blocks have maxima at or above the k-th largest one, so k logits are. The margin is for the rounding of weights.
  if (maxima_.size() < k) return kLeastWeight;
  sorted_ = maxima_;
  std::nth_element(sorted_.begin(), sorted_.begin() + (k - 1), sorted_.end(), std::greater<>());
  return std::max(kLeastWeight, 0.999f * ExpNonPositive((sorted_[k - 1] - request.max) / request.temperature));
}

uint64_t Chooser::Collect(const Request& request, float least) {
  ids_.clear();
  weights_.clear();
  uint64_t mass = 0;
  std::array<float, kLogitBlock> weights;
  // With a margin far above any rounding.
  const double bound = request.max + request.temperature * (Log(least) - 0.01);
  for (size_t block = 0; block < maxima_.size(); ++block) {
    if (maxima_[block] < bound) continue;
    const std::span<const float> part = LogitBlockAt(request.logits, block);
    BlockWeights(part, request.max, request.temperature, weights.data());
    for (size_t i = 0; i < part.size(); ++i) {
      if (weights[i] < least) continue;
      ids_.push_back(static_cast<TokenId>(block * kLogitBlock + i));
      weights_.push_back(weights[i]);
      mass += WeightMass(weights[i]);
    }
  }
  return mass;
}

// Candidates are in the order of their ids, so a prefix of them is one of all ids.
TokenId Chooser::DrawFromCandidates(const Request& request, KeptPrefix kept) const {
  return ids_[static_cast<size_t>(DrawToken(weights_, kept, request.random))];
}

TokenId Chooser::DrawFromAll(const Request& request) {
  masses_.resize(maxima_.size());
  const uint64_t mass = BlockMasses(request.logits, maxima_, request.max, request.temperature, masses_);
  uint64_t target = MultiplyHigh(request.random, mass);
  size_t block = 0;
  while (target >= masses_[block]) target -= masses_[block++];
  const std::span<const float> part = LogitBlockAt(request.logits, block);
  std::array<float, kLogitBlock> weights;
  BlockWeights(part, request.max, request.temperature, weights.data());
  size_t i = 0;
  for (; target >= WeightMass(weights[i]); ++i) target -= WeightMass(weights[i]);
  return static_cast<TokenId>(block * kLogitBlock + i);
}

}  // namespace baton
