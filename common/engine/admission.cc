#include "common/engine/admission.h"

#include <algorithm>
#include <bit>

#include "common/base/status.h"

namespace baton {
namespace {

absl::Status CheckTokens(const char* field, const std::vector<TokenId>& tokens, uint32_t vocab_size) {
  for (const TokenId id : tokens) {
    if (id < 0 || static_cast<uint32_t>(id) >= vocab_size) {
      return InvalidArgument("%s has token id %d, the vocabulary has %d ids", field, id, vocab_size);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckChoices(const EngineRequest& request, uint32_t vocab_size) {
  if (request.choices.empty() || request.choices.size() > kMaxChoices) {
    return InvalidArgument("%d choices, allowed is 1 to %d", request.choices.size(), kMaxChoices);
  }
  uint64_t seen = 0;
  for (const ChoiceStart& choice : request.choices) {
    if (choice.index >= kMaxChoices) {
      return InvalidArgument("choice index is %d, it must be below %d", choice.index, kMaxChoices);
    }
    if (seen >> choice.index & 1) return InvalidArgument("choice index %d appears twice", choice.index);
    seen |= uint64_t{1} << choice.index;
    BATON_RETURN_IF_ERROR(CheckTokens("generated", choice.generated, vocab_size));
    if (choice.generated.size() >= request.sampling.max_tokens) {
      return InvalidArgument("choice %d has %d generated tokens already, max_tokens is %d", choice.index,
                             choice.generated.size(), request.sampling.max_tokens);
    }
    if (request.work == WorkKind::kPrefill && !choice.generated.empty()) {
      return InvalidArgument("choice %d has %d generated tokens, a prefill takes none", choice.index,
                             choice.generated.size());
    }
    if (request.work == WorkKind::kDecode && choice.generated.empty()) {
      return InvalidArgument("choice %d has no generated token, a decode needs one", choice.index);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBlocks(const EngineRequest& request, uint64_t prompt_blocks, const AdmissionLimits& limits) {
  const uint64_t expected = request.work == WorkKind::kDecode ? prompt_blocks + request.choices.size() : 0;
  if (request.blocks.size() != expected) {
    return InvalidArgument("%d blocks handed over, expected %d for %d prompt tokens and %d choices",
                           request.blocks.size(), expected, request.prompt.size(), request.choices.size());
  }
  std::vector<BlockId> sorted = request.blocks;
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty() && sorted.back() >= limits.pool_blocks) {
    return InvalidArgument("block %d handed over, the pool has %d", sorted.back(), limits.pool_blocks);
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return InvalidArgument("block %d handed over twice", *twice);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequest(const EngineRequest& request, const AdmissionLimits& limits) {
  if (request.sink == nullptr) return InvalidArgument("request %d has no sink", request.id);
  if (request.prompt.empty()) return InvalidArgument("the prompt has no tokens");
  BATON_RETURN_IF_ERROR(CheckTokens("prompt", request.prompt, limits.vocab_size));
  BATON_RETURN_IF_ERROR(Validate(request.sampling, limits.vocab_size));
  BATON_RETURN_IF_ERROR(CheckChoices(request, limits.vocab_size));

  const uint64_t prompt = request.prompt.size();
  const uint64_t max_tokens = request.sampling.max_tokens;
  if (limits.max_model_len > 0 && prompt + max_tokens > limits.max_model_len) {
    return FailedPrecondition("%d prompt tokens and max_tokens %d make %d, the model takes %d", prompt, max_tokens,
                              prompt + max_tokens, limits.max_model_len);
  }
  const auto blocks_for = [&](uint64_t tokens) { return (tokens + limits.block_size - 1) / limits.block_size; };
  BATON_RETURN_IF_ERROR(CheckBlocks(request, blocks_for(prompt), limits));
  // The KV of the last token is never needed; a prefill keeps that of the prompt only.
  const uint64_t positions = request.work == WorkKind::kPrefill ? prompt : prompt + max_tokens - 1;
  if (blocks_for(positions) > limits.pool_blocks) {
    return FailedPrecondition("%d tokens of KV need %d blocks, the pool has %d", positions, blocks_for(positions),
                              limits.pool_blocks);
  }
  return absl::OkStatus();
}

}  // namespace baton
