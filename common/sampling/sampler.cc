#include "common/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/philox.h"
#include "common/sampling/weights.h"

namespace baton {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
// At and below this temperature a draw is greedy; ties then go to the lower id as they do at 0.
constexpr float kGreedyTemperature = 1e-4f;

// Rules may push a possible token far, never out of the finite numbers.
float ClampFinite(float logit) {
  return std::clamp(logit, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
}

}  // namespace

struct Sampler::Impl {
  SamplingParams params;
  uint32_t choice_index;
  uint32_t vocab_size;
  uint32_t generated = 0;
  absl::flat_hash_set<TokenId> seen;              // prompt and generated; kept for the repetition penalty only
  absl::flat_hash_map<TokenId, uint32_t> counts;  // generated; kept for presence and frequency penalty only
  absl::flat_hash_set<TokenId> ends;              // ids that end the choice
  std::vector<float> raw;                         // [vocab_size] copy of the logits; for logprobs only

  bool InVocabulary(TokenId id) const { return id >= 0 && static_cast<uint32_t>(id) < vocab_size; }
  bool Repeats() const { return params.repetition_penalty != 1.0f; }
  bool Counts() const { return params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f; }
  bool MasksEnds() const { return generated < params.min_tokens && !ends.empty(); }
  bool Greedy() const { return params.temperature <= kGreedyTemperature || params.top_k == 1 || params.top_p <= 0.0f; }

  void Record(TokenId id) {
    ++generated;
    if (!InVocabulary(id)) return;
    if (Repeats()) seen.insert(id);
    if (Counts()) ++counts[id];
  }

  // In the order transformers applies them. Each rule touches its own few ids; impossible ones stay impossible.
  void ApplyRules(std::span<float> logits) const {
    for (const auto& [id, bias] : params.logit_bias) {
      if (InVocabulary(id) && logits[id] != kImpossible) logits[id] = ClampFinite(logits[id] + bias);
    }
    for (const TokenId id : seen) {
      if (logits[id] == kImpossible) continue;
      logits[id] =
          ClampFinite(logits[id] > 0 ? logits[id] / params.repetition_penalty : logits[id] * params.repetition_penalty);
    }
    for (const auto& [id, count] : counts) {
      if (logits[id] == kImpossible) continue;
      logits[id] =
          ClampFinite(logits[id] - params.presence_penalty - params.frequency_penalty * static_cast<float>(count));
    }
    if (MasksEnds()) {
      for (const TokenId id : ends) logits[id] = kImpossible;
    }
  }

  TokenId Choose(std::span<float> logits, float max) const {
    if (Greedy()) return static_cast<TokenId>(std::find(logits.begin(), logits.end(), max) - logits.begin());
    LogitsToWeights(logits, max, params.temperature);
    KeptPrefix kept;
    if (params.top_k > 0) kept = KeepTopK(logits, kept, params.top_k);
    kept = KeepTopP(logits, kept, params.top_p);
    kept = KeepMinP(kept, params.min_p);
    return DrawToken(logits, kept, TokenRandom(params.seed, choice_index, generated));
  }
};

Sampler::Sampler(const SamplingParams& params, uint32_t choice_index, uint32_t vocab_size,
                 std::span<const TokenId> prompt, std::span<const TokenId> generated)
    : impl_(std::make_unique<Impl>()) {
  impl_->params = params;
  impl_->choice_index = choice_index;
  impl_->vocab_size = vocab_size;
  const auto add_end = [this](TokenId id) {
    if (impl_->InVocabulary(id)) impl_->ends.insert(id);
  };
  for (const TokenId id : params.stop_token_ids) add_end(id);
  if (!params.ignore_eos) {
    for (const TokenId id : params.eos_token_ids) add_end(id);
  }
  if (impl_->Repeats()) {
    for (const TokenId id : prompt) {
      if (impl_->InVocabulary(id)) impl_->seen.insert(id);
    }
  }
  for (const TokenId id : generated) impl_->Record(id);
}

Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

uint32_t Sampler::generated() const { return impl_->generated; }

SampledToken Sampler::Sample(std::span<float> logits) {
  Impl& impl = *impl_;
  SampledToken sampled;
  float max = logits.size() == impl.vocab_size ? MaskNonFinite(logits) : kImpossible;
  if (max == kImpossible) {
    sampled.finish = FinishReason::kError;
    return sampled;
  }
  const float raw_max = max;
  const bool want_logprobs = impl.params.logprobs.has_value();
  if (want_logprobs) impl.raw.assign(logits.begin(), logits.end());

  if (!impl.params.logit_bias.empty() || !impl.seen.empty() || !impl.counts.empty() || impl.MasksEnds()) {
    impl.ApplyRules(logits);
    max = MaxLogit(logits);
    if (max == kImpossible) {
      sampled.finish = FinishReason::kError;
      return sampled;
    }
  }
  sampled.id = impl.Choose(logits, max);
  if (want_logprobs) {
    const RawDistribution raw(impl.raw, raw_max);
    sampled.logprob = raw.Logprob(impl.raw[sampled.id]);
    sampled.top = raw.Top(*impl.params.logprobs);
  }
  impl.Record(sampled.id);
  if (impl.ends.contains(sampled.id)) {
    sampled.finish = FinishReason::kStop;
  } else if (impl.generated >= impl.params.max_tokens) {
    sampled.finish = FinishReason::kLength;
  }
  return sampled;
}

}  // namespace baton
