#include "common/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/sampling/chooser.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/philox.h"
#include "common/sampling/weights.h"

namespace baton {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
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
  Chooser chooser;

  bool InVocabulary(TokenId id) const { return id >= 0 && static_cast<uint32_t>(id) < vocab_size; }
  bool Repeats() const { return params.repetition_penalty != 1.0f; }
  bool Counts() const { return params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f; }
  bool MasksEnds() const { return generated < params.min_tokens && !ends.empty(); }

  void Record(TokenId id) {
    ++generated;
    if (!InVocabulary(id)) return;
    if (Repeats()) seen.insert(id);
    if (Counts()) ++counts[id];
  }

  // In the order transformers applies them. Each rule touches its own few ids; impossible ones stay impossible.
  void ApplyRules(std::span<float> logits) const {
    for (const auto& [id, bias] : params.logit_bias) {
      if (InVocabulary(id) && std::isfinite(logits[id])) logits[id] = ClampFinite(logits[id] + bias);
    }
    for (const TokenId id : seen) {
      if (!std::isfinite(logits[id])) continue;
      logits[id] =
          ClampFinite(logits[id] > 0 ? logits[id] / params.repetition_penalty : logits[id] * params.repetition_penalty);
    }
    for (const auto& [id, count] : counts) {
      if (!std::isfinite(logits[id])) continue;
      logits[id] =
          ClampFinite(logits[id] - params.presence_penalty - params.frequency_penalty * static_cast<float>(count));
    }
    if (MasksEnds()) {
      for (const TokenId id : ends) logits[id] = kImpossible;
    }
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
  const bool want_logprobs = impl.params.logprobs.has_value();
  float raw_max = kImpossible;
  if (want_logprobs) {
    raw_max = MaskNonFinite(logits);
    impl.raw.assign(logits.begin(), logits.end());
  }
  const bool is_whole = logits.size() == impl.vocab_size;
  if (is_whole) impl.ApplyRules(logits);
  const TokenId chosen =
      is_whole
          ? impl.chooser.Choose(logits, impl.params, TokenRandom(impl.params.seed, impl.choice_index, impl.generated))
          : -1;
  if (chosen < 0) {
    sampled.finish = FinishReason::kError;
    return sampled;
  }
  sampled.id = chosen;
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
