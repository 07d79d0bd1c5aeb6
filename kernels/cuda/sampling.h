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
  int32_t logits = 0;    // its row of logits; choices may share one
  int32_t history = -1;  // its row of histories, of no other choice; -1: without penalties
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
  int32_t top = -1;          // alternatives with log-probabilities, up to kMaxTopTokens; -1: none, nor the token's own
  int32_t first_bias = 0;    // of its range in the list of biases
  int32_t biases = 0;        // no token twice
  int32_t first_masked = 0;  // of its range in the list of masked tokens
  int32_t masked = 0;
};

struct LogitBias {
  TokenId id = 0;
  float bias = 0;
};

// What penalties know of a token: 0 of one that is neither in the prompt nor generated, else kSeen with the times it
// was generated in the bits below. A history is [vocab] of them.
inline constexpr uint32_t kSeen = uint32_t{1} << 31;

struct TopToken {
  TokenId id = 0;
  float logprob = 0;
};

struct SampledRow {
  TokenId id = -1;  // -1: no token is possible
  float logprob = 0;
  int32_t top_count = 0;  // fewer than asked for when fewer are possible
};

// Everything that rows point into; arrays of the device.
struct SampleInputs {
  const float* logits = nullptr;  // rows of [vocab], `stride` apart; NaN and infinities are impossible tokens
  int64_t stride = 0;
  int32_t vocab = 0;
  const LogitBias* biases = nullptr;
  const TokenId* masked = nullptr;  // ends that may not come yet
  uint32_t* histories = nullptr;    // [.., vocab]; told of the tokens that are drawn
};

// rows, results: [row_count]. scratch: [row_count, vocab] f32. tops: [row_count, kMaxTopTokens].
Error Sample(const SampleInputs& inputs, const SampleRow* rows, int64_t row_count, float* scratch, SampledRow* results,
             TopToken* tops, Stream stream);

// A history's content so far, as a range of the list of tokens; the rest of it is cleared.
struct HistoryStart {
  int32_t history = 0;
  int32_t first = 0;
  int32_t count = 0;
};
struct SeenToken {
  TokenId id = 0;
  uint32_t word = 0;
};

// starts: [count] on the device, no history twice.
Error StartHistories(const HistoryStart* starts, int64_t count, const SeenToken* tokens, int32_t vocab,
                     uint32_t* histories, Stream stream);

}  // namespace baton::cuda
