#include "common/routing/pairing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace baton {
namespace {

// At most the blocks before the last prompt token count: that token is always computed.
uint32_t CachedTokens(const PairingRequest& request, const PairingCandidate& worker) {
  const uint32_t usable = (request.prompt_tokens - 1) / request.block_size;
  return std::min(worker.cached_blocks, usable) * request.block_size;
}

uint64_t PrefillCost(const PairingRequest& request, const PairingCandidate& worker) {
  return worker.queued_prompt_tokens + request.prompt_tokens - CachedTokens(request, worker);
}

uint64_t DecodeCost(const PairingRequest& request, const PairingCandidate& worker) {
  const uint64_t needed = BlocksOfAllChoices(request);
  const uint64_t cached = CachedTokens(request, worker) / request.block_size;
  return worker.blocks_in_use + needed - std::min(needed, cached) + worker.running_sequences;
}

template <typename Usable, typename Cost>
std::optional<size_t> Cheapest(std::span<const PairingCandidate> workers, uint64_t blocks, const Usable& usable,
                               const Cost& cost) {
  std::optional<size_t> best;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].pool_blocks < blocks || !usable(workers[i])) continue;
    if (!best || cost(workers[i]) < cost(workers[*best])) best = i;
  }
  return best;
}

bool Any(const PairingCandidate&) { return true; }

}  // namespace

bool MayPair(const HandoffIdentity& prefill, const HandoffIdentity& decode) {
  if (prefill.layout != decode.layout) return false;
  return prefill.numerics == decode.numerics || (prefill.allow_mixed_numerics && decode.allow_mixed_numerics);
}

std::string WhyNoPair(const HandoffIdentity& prefill, const HandoffIdentity& decode) {
  if (prefill.layout != decode.layout) {
    return absl::StrFormat("layout hash %016x of the prefill worker, %016x of the decode worker", prefill.layout.value,
                           decode.layout.value);
  }
  return absl::StrFormat(
      "numerics hash %016x of the prefill worker, %016x of the decode worker, and they do not both allow mixed "
      "numerics",
      prefill.numerics.value, decode.numerics.value);
}

std::string_view PairingReasonName(PairingReason reason) {
  switch (reason) {
    case PairingReason::kLongPrompt:
      return "long_prompt";
    case PairingReason::kPolicy:
      return "policy";
    case PairingReason::kShortPrompt:
      return "short_prompt";
    case PairingReason::kPrefixOnDecode:
      return "prefix_on_decode";
    case PairingReason::kNoPrefillWorker:
      return "no_prefill_worker";
    case PairingReason::kSingleToken:
      return "single_token";
    case PairingReason::kNoDecodeWorker:
      return "no_decode_worker";
    case PairingReason::kResume:
      return "resume";
    case PairingReason::kLeaseTooLarge:
      return "lease_too_large";
    case PairingReason::kPoolTooSmall:
      return "pool_too_small";
  }
  return "unknown";
}

uint64_t BlocksNeeded(const PairingRequest& request) {
  // The KV of the last token is never needed.
  const uint64_t positions = uint64_t{request.prompt_tokens} + std::max(1u, request.max_tokens) - 1;
  return (positions + request.block_size - 1) / request.block_size;
}

uint64_t BlocksOfAllChoices(const PairingRequest& request) {
  const uint64_t tokens = uint64_t{request.prompt_tokens} + uint64_t{request.max_tokens} * request.choices;
  return (tokens + request.block_size - 1) / request.block_size;
}

PairingDecision ChoosePair(const PairingRequest& request, std::span<const PairingCandidate> prefill,
                           std::span<const PairingCandidate> decode) {
  // Equal numerics first, however long their queue.
  const auto prefill_cost = [&](NumericsHash wanted) {
    return [&request, wanted](const PairingCandidate& worker) {
      return std::pair(worker.numerics != wanted, PrefillCost(request, worker));
    };
  };
  const auto decode_cost = [&](const PairingCandidate& worker) { return DecodeCost(request, worker); };
  const uint64_t prompt_blocks = (uint64_t{request.prompt_tokens} + request.block_size - 1) / request.block_size;

  if (request.max_tokens == 1 && !request.resume && request.policy != DisaggregationPolicy::kNever) {
    if (const auto worker = Cheapest(prefill, prompt_blocks, Any, prefill_cost(request.numerics))) {
      return {worker, std::nullopt, PairingReason::kSingleToken};
    }
  }
  const std::optional<size_t> target = Cheapest(decode, BlocksNeeded(request), Any, decode_cost);
  if (!target) {
    const auto reason = decode.empty() ? PairingReason::kNoDecodeWorker : PairingReason::kPoolTooSmall;
    return {std::nullopt, std::nullopt, reason};
  }
  if (request.resume) return {std::nullopt, target, PairingReason::kResume};
  if (request.policy == DisaggregationPolicy::kNever) return {std::nullopt, target, PairingReason::kPolicy};

  // Prefix hits would make the lease smaller, but they may be gone when it is made.
  if (prompt_blocks + request.choices > decode[*target].max_lease_blocks) {
    return {std::nullopt, target, PairingReason::kLeaseTooLarge};
  }

  const auto may_pair = [&](const PairingCandidate& worker) { return MayPair(worker, decode[*target]); };
  const std::optional<size_t> source =
      Cheapest(prefill, prompt_blocks, may_pair, prefill_cost(decode[*target].numerics));
  if (!source) return {std::nullopt, target, PairingReason::kNoPrefillWorker};
  if (request.policy == DisaggregationPolicy::kAlways) return {source, target, PairingReason::kPolicy};

  const uint32_t cached = CachedTokens(request, decode[*target]);
  if (request.prompt_tokens - cached <= request.local_prefill_tokens) {
    return {std::nullopt, target, cached > 0 ? PairingReason::kPrefixOnDecode : PairingReason::kShortPrompt};
  }
  return {source, target, PairingReason::kLongPrompt};
}

}  // namespace baton
