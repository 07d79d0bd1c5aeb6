#pragma once

// Which workers serve a prompt. Plain logic over plain views: the router calls it with live workers, a simulation with
// imagined ones.
//
//   prefill cost = prompt tokens queued there + this prompt minus its prefix cached there
//   decode cost  = blocks in use + blocks this request needs there + running sequences
//
// A worker whose whole pool is too small for the work is no candidate. Ties go to the earlier worker of the list.
// Workers of unequal numerics pair only where both allow it, and only where none of equal numerics is left.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace baton {

enum class DisaggregationPolicy : uint8_t { kAuto, kAlways, kNever };

// Why a prompt was disaggregated or not; label of baton_disaggregation_decisions_total.
enum class PairingReason : uint8_t {
  kLongPrompt,       // disaggregated: worth a prefill worker
  kPolicy,           // the policy says always or never
  kShortPrompt,      // local: few uncached tokens
  kPrefixOnDecode,   // local: most of the prompt lies on the decode worker
  kNoPrefillWorker,  // local: none is ready
  kSingleToken,      // prefill worker alone: every choice ends with its first token
  kNoDecodeWorker,   // nothing can serve it
  kResume,           // local: a choice has tokens already
  kLeaseTooLarge,    // local: the decode worker leases no more than a share of its pool, the prompt needs more
  kPoolTooSmall,     // nothing can serve it: no decode worker's pool holds prompt and answer
};
std::string_view PairingReasonName(PairingReason reason);
inline constexpr int kPairingReasons = 10;

// What decides whether one worker may hand over to another.
struct HandoffIdentity {
  LayoutHash layout;
  NumericsHash numerics;
  bool allow_mixed_numerics = false;
};
// Equal layouts, and equal numerics unless both allow others.
bool MayPair(const HandoffIdentity& prefill, const HandoffIdentity& decode);
// Of two that may not: why, with both sides' values.
std::string WhyNoPair(const HandoffIdentity& prefill, const HandoffIdentity& decode);

struct PairingCandidate : HandoffIdentity {
  uint32_t cached_blocks = 0;         // of this prompt, from its start
  uint64_t queued_prompt_tokens = 0;  // prefill: larger of what the worker says and what this router has sent
  uint32_t blocks_in_use = 0;         // decode: likewise
  uint32_t running_sequences = 0;     // decode: likewise
  uint32_t pool_blocks = UINT32_MAX;
  uint32_t max_lease_blocks = UINT32_MAX;  // decode: a lease of more is refused
};

struct PairingRequest {
  uint32_t prompt_tokens = 0;
  uint32_t choices = 1;
  uint32_t max_tokens = 1;
  uint32_t block_size = 16;
  NumericsHash numerics;  // a prefill worker that serves alone is one of these, if there is one
  bool resume = false;
  DisaggregationPolicy policy = DisaggregationPolicy::kAuto;
  uint32_t local_prefill_tokens = 32;  // up to so many uncached tokens the decode worker reads the prompt itself
};

struct PairingDecision {
  std::optional<size_t> prefill;  // index into the candidates; unset: local prefill
  std::optional<size_t> decode;   // unset with prefill set: single token; both unset: nothing can serve it
  PairingReason reason = PairingReason::kNoDecodeWorker;
};

// KV blocks of one choice at its full length.
uint64_t BlocksNeeded(const PairingRequest& request);
// KV blocks of all choices at their full length, the prompt's counted once: what the request is taken to load a decode
// worker with.
uint64_t BlocksOfAllChoices(const PairingRequest& request);

PairingDecision ChoosePair(const PairingRequest& request, std::span<const PairingCandidate> prefill,
                           std::span<const PairingCandidate> decode);

}  // namespace baton
