#include "common/sampling/params.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/status.h"

namespace baton {
namespace {

absl::Status CheckRange(const char* field, float value, float low, float high) {
  if (value >= low && value <= high) return absl::OkStatus();  // false for NaN
  return InvalidArgument("%s is %g, allowed is %g to %g", field, value, low, high);
}

absl::Status CheckIds(const char* field, const std::vector<TokenId>& ids, size_t limit, uint32_t vocab_size) {
  if (ids.size() > limit) return InvalidArgument("%s has %d entries, the limit is %d", field, ids.size(), limit);
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= vocab_size) {
      return InvalidArgument("%s has id %d, the vocabulary has %d ids", field, id, vocab_size);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const SamplingParams& params, uint32_t vocab_size) {
  if (params.max_tokens == 0) return InvalidArgument("max_tokens is 0, it must be at least 1");
  if (params.min_tokens > params.max_tokens) {
    return InvalidArgument("min_tokens is %d, max_tokens is %d", params.min_tokens, params.max_tokens);
  }
  BATON_RETURN_IF_ERROR(CheckRange("temperature", params.temperature, 0, 2));
  BATON_RETURN_IF_ERROR(CheckRange("top_p", params.top_p, 0, 1));
  BATON_RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0, 1));
  if (!std::isfinite(params.repetition_penalty) || params.repetition_penalty <= 0) {
    return InvalidArgument("repetition_penalty is %g, it must be above 0 and finite", params.repetition_penalty);
  }
  BATON_RETURN_IF_ERROR(CheckRange("presence_penalty", params.presence_penalty, -2, 2));
  BATON_RETURN_IF_ERROR(CheckRange("frequency_penalty", params.frequency_penalty, -2, 2));
  BATON_RETURN_IF_ERROR(CheckIds("stop_token_ids", params.stop_token_ids, kMaxStopTokenIds, vocab_size));
  BATON_RETURN_IF_ERROR(CheckIds("eos_token_ids", params.eos_token_ids, kMaxStopTokenIds, vocab_size));
  if (params.logit_bias.size() > kMaxLogitBias) {
    return InvalidArgument("logit_bias has %d entries, the limit is %d", params.logit_bias.size(), kMaxLogitBias);
  }
  std::set<TokenId> biased;
  for (const auto& [id, bias] : params.logit_bias) {
    if (!biased.insert(id).second) return InvalidArgument("logit_bias has id %d twice", id);
    if (id < 0 || static_cast<uint32_t>(id) >= vocab_size) {
      return InvalidArgument("logit_bias has id %d, the vocabulary has %d ids", id, vocab_size);
    }
    if (!(bias >= -100 && bias <= 100)) {
      return InvalidArgument("logit_bias of id %d is %g, allowed is -100 to 100", id, bias);
    }
  }
  if (params.logprobs && *params.logprobs > std::min<uint32_t>(kMaxTopLogprobs, vocab_size)) {
    return InvalidArgument("logprobs is %d, the limit is %d", *params.logprobs,
                           std::min<uint32_t>(kMaxTopLogprobs, vocab_size));
  }
  if (params.min_tokens > 0) {
    std::vector<TokenId> ends = params.stop_token_ids;
    if (!params.ignore_eos) ends.insert(ends.end(), params.eos_token_ids.begin(), params.eos_token_ids.end());
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    if (ends.size() >= vocab_size) {
      return InvalidArgument("min_tokens is %d but all %d ids of the vocabulary are stop ids", params.min_tokens,
                             vocab_size);
    }
  }
  return absl::OkStatus();
}

}  // namespace baton
