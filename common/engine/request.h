#pragma once

// What goes into an engine and what comes out, as plain values.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/sampling/params.h"
#include "common/sampling/sampler.h"

namespace baton {

enum class WorkKind : uint8_t {
  kGenerate,  // prompt and decode here (local prefill, a resume)
  kPrefill,   // prompt here, one token per choice, then hold the prompt's blocks until Release
  kDecode,    // prompt KV is in `blocks` already (a committed handoff): decode only
};

struct ChoiceStart {
  uint32_t index = 0;              // the choice's index within the client's request: it selects the random stream
  std::vector<TokenId> generated;  // tokens that exist already; for kDecode at least one, whose KV is not written yet
};

// One choice's new token in one step.
struct ChoiceToken {
  uint32_t choice = 0;       // ChoiceStart::index
  uint32_t token_index = 0;  // 0 for the first generated token
  SampledToken token;        // token.finish ends the choice
};

// Stages in the engine's own clock, for the request's timing account.
struct EngineTimings {
  Duration queue{0};           // Submit to first scheduled
  Duration prefill{0};         // first scheduled to first token (kDecode: zero)
  Duration decode{0};          // first token (kDecode: first scheduled) to end
  uint32_t cached_tokens = 0;  // prompt tokens whose KV came from the prefix cache
  uint32_t preemptions = 0;
};

// Called by the step thread, never concurrently for one request, never after OnEnd. Must not block and must not call
// back into the engine's blocking calls; hand over to a queue or to gRPC's asynchronous writes.
class EngineSink {
 public:
  virtual ~EngineSink() = default;
  // Scheduled for the first time; `cached_tokens` of the prompt are in the prefix cache (kDecode: 0).
  virtual void OnStarted(uint32_t cached_tokens) = 0;
  // KV of prompt positions [0, tokens_done) is in `blocks` [ceil(prompt / block_size)]; blocks below
  // tokens_done / block_size (all of them when tokens_done is the prompt length) are final. Called after every chunk of
  // the first run of the prompt; for kPrefill also at the start when some of it is cached.
  virtual void OnPromptProgress(uint32_t tokens_done, std::span<const BlockId> blocks) = 0;
  // All choices' tokens of one step.
  virtual void OnTokens(std::span<const ChoiceToken> tokens) = 0;
  // OK when every choice finished, else why not. For kPrefill after the first tokens; the blocks stay until Release.
  virtual void OnEnd(const absl::Status& status, const EngineTimings& timings) = 0;
};

struct EngineRequest {
  uint64_t id = 0;  // unique among the engine's live requests; chosen by the caller
  WorkKind work = WorkKind::kGenerate;
  std::vector<TokenId> prompt;       // at least one token
  std::vector<ChoiceStart> choices;  // at least one
  SamplingParams sampling;
  int32_t priority = 0;  // lower runs first
  Duration waited{0};    // before it was submitted: its priority has aged by that, too
  std::string cache_salt;
  bool use_prefix_cache = true;
  // kDecode only: blocks of the prompt, then one growth block per choice; owned, handed over to the engine.
  std::vector<BlockId> blocks;
  std::shared_ptr<EngineSink> sink;
};

}  // namespace baton
