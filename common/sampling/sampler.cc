#include "common/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/philox.h"
#include "common/sampling/chooser.h"
#include "common/sampling/logprobs.h"
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
  History history;
  std::vector<TokenId> ends;  // ids that end the choice, ascending
  Chooser chooser;

  struct Touched {
    TokenId id;
    float logit;
  };
  std::vector<Touched> touched;  // by the rules, with the logits before

  bool InVocabulary(TokenId id) const { return id >= 0 && static_cast<uint32_t>(id) < vocab_size; }
  bool Repeats() const { return params.repetition_penalty != 1.0f; }
  bool Counts() const { return params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f; }
  bool MasksEnds() const { return generated < params.min_tokens; }

  void Record(TokenId id) {
    ++generated;
    if (InVocabulary(id) && (Repeats() || Counts())) ++history[id];
  }

  // In the order transformers applies them. Each rule touches its own few ids; impossible ones stay impossible.
  void ApplyRules(std::span<float> logits) {
    touched.clear();
    const auto change = [&](TokenId id, const auto& rule) {
      if (!std::isfinite(logits[id])) return;
      touched.push_back({id, logits[id]});
      logits[id] = rule(logits[id]);
    };
    for (const auto& [id, bias] : params.logit_bias) {
      if (InVocabulary(id)) change(id, [bias](float logit) { return ClampFinite(logit + bias); });
    }
    for (const auto& [id, count] : history) {
      change(id, [&, count](float logit) {
        if (Repeats()) {
          logit = ClampFinite(logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty);
        }
        if (Counts() && count > 0) {
          logit = ClampFinite(logit - params.presence_penalty - params.frequency_penalty * static_cast<float>(count));
        }
        return logit;
      });
    }
    if (MasksEnds()) {
      for (const TokenId id : ends) change(id, [](float) { return kImpossible; });
    }
  }
  void UndoRules(std::span<float> logits) {
    for (; !touched.empty(); touched.pop_back()) logits[touched.back().id] = touched.back().logit;
  }
};

Sampler::Sampler(const SamplingParams& params, uint32_t choice_index, uint32_t vocab_size,
                 std::span<const TokenId> prompt, std::span<const TokenId> generated)
    : impl_(std::make_shared<Impl>()) {
  impl_->params = params;
  impl_->choice_index = choice_index;
  impl_->vocab_size = vocab_size;
  std::vector<TokenId>& ends = impl_->ends;
  ends = params.stop_token_ids;
  if (!params.ignore_eos) ends.insert(ends.end(), params.eos_token_ids.begin(), params.eos_token_ids.end());
  std::erase_if(ends, [this](TokenId id) { return !impl_->InVocabulary(id); });
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (impl_->Repeats()) {
    for (const TokenId id : prompt) {
      if (impl_->InVocabulary(id)) impl_->history.emplace(id, 0);
    }
  }
  for (const TokenId id : generated) impl_->Record(id);
}

Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

const SamplingParams& Sampler::params() const { return impl_->params; }
uint32_t Sampler::choice_index() const { return impl_->choice_index; }
uint32_t Sampler::generated() const { return impl_->generated; }
const Sampler::History& Sampler::history() const { return impl_->history; }
std::weak_ptr<const void> Sampler::identity() const { return impl_; }

std::span<const TokenId> Sampler::masked() const {
  return impl_->MasksEnds() ? std::span<const TokenId>(impl_->ends) : std::span<const TokenId>();
}

FinishReason Sampler::Record(TokenId id) {
  impl_->Record(id);
  if (std::binary_search(impl_->ends.begin(), impl_->ends.end(), id)) return FinishReason::kStop;
  return impl_->generated >= impl_->params.max_tokens ? FinishReason::kLength : FinishReason::kNone;
}

SampledToken Sampler::Sample(std::span<float> logits) {
  Impl& impl = *impl_;
  SampledToken sampled;
  sampled.finish = FinishReason::kError;
  if (logits.size() != impl.vocab_size) return sampled;
  const SamplingParams& params = impl.params;
  const float raw_max = params.logprobs ? MaskNonFinite(logits) : 0;
  impl.ApplyRules(logits);
  sampled.id = impl.chooser.Choose(logits, params, TokenRandom(params.seed, impl.choice_index, impl.generated));
  impl.UndoRules(logits);
  if (sampled.id < 0) {
    sampled.id = 0;
    return sampled;
  }
  if (params.logprobs) {
    const RawDistribution raw(logits, raw_max);
    sampled.logprob = raw.Logprob(logits[sampled.id]);
    sampled.top = raw.Top(*params.logprobs);
  }
  sampled.finish = Record(sampled.id);
  return sampled;
}

}  // namespace baton
