#pragma once

// Sampling of one choice: rules, then a draw from a random stream that is a function of (seed, choice index, token
// index) alone, so that the same request gives the same tokens wherever and however it is run.

#include <cstdint>
#include <memory>
#include <span>

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

  // Chooses the next token and records it. `logits` [vocab_size] is scratch afterwards. Never returns an id outside the
  // vocabulary, also for logits with NaN or infinities (those ids count as impossible; all impossible: INTERNAL by
  // finish = kError).
  SampledToken Sample(std::span<float> logits);

  uint32_t generated() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton
