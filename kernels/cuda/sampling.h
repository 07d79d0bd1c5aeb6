#pragma once

// Sampling on the device: from a row of logits to a token, with the rules, the integer probabilities and the random
// stream of common/sampling, so that both give the same token for the same logits.

#include <cstdint>

#include "common/base/ids.h"
#include "kernels/cuda/stream.h"

namespace baton::cuda {

inline constexpr int kMaxTopTokens = 20;

// What a choice asks of its next token; common/sampling/params.h has the meaning and ranges.
struct SampleRow {
  uint64_t seed = 0;
  uint32_t choice_index = 0;
  uint32_t token_index = 0;
  float temperature = 1.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint32_t top_k = 0;  // 0: off
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t top = -1;        // alternatives with log-probabilities, up to kMaxTopTokens; -1: none, nor the token's own
  int32_t first_rule = 0;  // of this row in the list of rules
  int32_t rules = 0;
};

// What is done to one token's logit, in this order. A row has one rule for a token at most.
struct TokenRule {
  TokenId id = 0;
  float bias = 0;       // logit bias
  uint32_t seen = 0;    // 1: repetition penalty
  uint32_t count = 0;   // times generated: presence and frequency penalty when above 0
  uint32_t masked = 0;  // 1: an end that may not come yet
};

struct SampledRow {
  TokenId id = -1;  // -1: no token is possible
  float logprob = 0;
  int32_t top_count = 0;  // fewer than asked for when fewer are possible
  TokenId top_ids[kMaxTopTokens];
  float top_logprobs[kMaxTopTokens];
};

// logits: [row_count, vocab] f32, rows `stride` apart; NaN and infinities are impossible tokens. scratch: [row_count,
// vocab] f32. rows, results: [row_count].
Error Sample(const float* logits, int64_t stride, int32_t vocab, const SampleRow* rows, const TokenRule* rules,
             int64_t row_count, float* scratch, SampledRow* results, Stream stream);

}  // namespace baton::cuda
