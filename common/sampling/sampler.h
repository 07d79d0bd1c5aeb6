#pragma once

// Sampling of one choice: rules, then a draw from a random stream that is a function of (seed, choice index, token
// index) alone, so that the same request gives the same tokens wherever and however it is run.

#include <cstdint>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"
#include "common/sampling/params.h"
#include "common/sampling/sampled_token.h"

namespace baton {

// Not thread-safe. Keeps counts of what was generated; `prompt` is read in the constructor only.
class Sampler {
 public:
  // `generated`: tokens of this choice that exist already (a handoff's first token, a resume).
  Sampler(const SamplingParams& params, uint32_t choice_index, uint32_t vocab_size, std::span<const TokenId> prompt,
          std::span<const TokenId> generated);
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  // Chooses the next token and records it. `logits` [vocab_size] are the same afterwards, but for NaN and infinities,
  // which may have become -inf. Never returns an id outside the vocabulary, also for logits with NaN or infinities
  // (those ids count as impossible; all impossible: INTERNAL by finish = kError, and nothing is recorded).
  SampledToken Sample(std::span<float> logits);

  // For a device that chooses by the same rules: what they are and what they know of the tokens so far.
  const SamplingParams& params() const;
  uint32_t choice_index() const;
  uint32_t generated() const;
  // Ids that end the choice and may not come yet, ascending.
  std::span<const TokenId> masked() const;
  // Tokens that a penalty may apply to, with the times each was generated; those of the prompt are there for the
  // repetition penalty alone. Empty without penalties.
  using History = absl::flat_hash_map<TokenId, uint32_t>;
  const History& history() const;
  // Records `id`, of the vocabulary, as the next token; says whether it ends the choice.
  FinishReason Record(TokenId id);
  // Expires with the sampler and is shared with no other, also not with one that comes to lie at the same address.
  std::weak_ptr<const void> identity() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace baton
