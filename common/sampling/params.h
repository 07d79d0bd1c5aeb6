#pragma once

// What a caller may ask of sampling, after defaults were resolved; validated against a vocabulary before use.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"

namespace baton {

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };

inline constexpr int kMaxTopLogprobs = 20;
inline constexpr int kMaxChoices = 64;
inline constexpr int kMaxStopTokenIds = 256;
inline constexpr int kMaxLogitBias = 1024;

struct SamplingParams {
  uint32_t max_tokens = 16;             // at least 1
  uint32_t min_tokens = 0;              // stop ids cannot be sampled before
  float temperature = 1.0f;             // [0, 2]; 0 (and up to 1e-4): greedy, ties to the lower id
  float top_p = 1.0f;                   // [0, 1]; 0 keeps the single best token
  uint32_t top_k = 0;                   // 0: off; above the vocabulary: all
  float min_p = 0.0f;                   // [0, 1]
  float repetition_penalty = 1.0f;      // > 0; over prompt and generated tokens, as transformers does
  float presence_penalty = 0.0f;        // [-2, 2]; over generated tokens
  float frequency_penalty = 0.0f;       // [-2, 2]; over generated tokens
  uint64_t seed = 0;                    // drawn by the router when the caller gave none
  std::vector<TokenId> stop_token_ids;  // the caller's; finish with kStop
  std::vector<TokenId> eos_token_ids;   // the model's; the same unless ignore_eos
  bool ignore_eos = false;
  std::vector<std::pair<TokenId, float>> logit_bias;  // [-100, 100]; no id twice
  std::optional<uint32_t> logprobs;                   // number of alternatives beside the sampled token, 0 to 20

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// INVALID_ARGUMENT naming the field, the value and the limit.
absl::Status Validate(const SamplingParams& params, uint32_t vocab_size);

}  // namespace baton
