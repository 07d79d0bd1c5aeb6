#pragma once

// What the step thread knows of a request and of its choices. Plain data: the scheduler moves phases, blocks and
// positions; the step loop adds tokens, samplers and times.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/engine/block_table.h"
#include "common/engine/request.h"
#include "common/engine/swap_pool.h"
#include "common/sampling/sampler.h"

namespace baton {

struct ActiveRequest;

// unforked ─▶ waiting ⇄ running ─▶ finished. A running sequence holds blocks, no other does; a waiting one may hold
// slots of the swap area.
enum class SequencePhase : uint8_t {
  kUnforked,  // waits for the request's first sequence to run the prompt that all choices share
  kWaiting,   // for blocks and a batch slot
  kRunning,
  kFinished,
};

struct Sequence {
  ActiveRequest* request = nullptr;
  uint32_t slot = 0;      // index into request->sequences and request->spec.choices
  int64_t rank = 0;       // lower first: priority and arrival as one number, see AgedRank
  bool in_batch = false;  // member of the running batch; continuous batching has no members
  SequencePhase phase = SequencePhase::kUnforked;
  std::vector<TokenId> tokens;  // prompt, then generated. Before the fork the first sequence has the prompt alone.
  bool ended = false;           // the choice has ended; the first sequence may still run the prompt for the others
  uint32_t computed = 0;        // positions [0, computed) have their KV in `table`
  BlockTable table;
  std::vector<Hash128> chain;     // hashes of full blocks of `tokens`, as far as they were needed
  uint32_t published = 0;         // blocks already offered to the prefix cache
  std::vector<SwapSlot> swapped;  // while it waits: where the KV of positions [0, swapped_tokens) lies
  uint32_t swapped_tokens = 0;
  uint32_t waiting_tokens = 0;  // uncached tokens when it began to wait
  uint64_t last_step = 0;       // last scheduler step it was part of
  std::optional<Sampler> sampler;

  uint32_t Remaining() const { return static_cast<uint32_t>(tokens.size()) - computed; }
};

struct ActiveRequest {
  EngineRequest spec;
  uint64_t arrival = 0;                              // order of arrival at the scheduler
  std::vector<std::unique_ptr<Sequence>> sequences;  // one per choice
  bool forked = false;      // every choice stands on its own; true from the start for one choice and for kDecode
  uint32_t unfinished = 0;  // choices
  uint32_t running = 0;     // sequences in phase kRunning
  bool admitted = false;    // was scheduled at least once
  uint32_t cached_tokens = 0;
  uint32_t preemptions = 0;

  TimePoint submitted{};                 // set before Scheduler::Add: waiting counts from here
  std::optional<TimePoint> started;      // first scheduled
  std::optional<TimePoint> first_token;  // kDecode: first scheduled
  uint32_t announced = 0;                // prompt tokens reported by OnPromptProgress
  std::vector<ChoiceToken> step_tokens;  // of the step in progress
  absl::Status failure;                  // set during a step: the request ends with it
  bool release_asked = false;            // kPrefill: nobody will read the blocks once it has ended

  uint32_t prompt_size() const { return static_cast<uint32_t>(spec.prompt.size()); }
  Sequence& root() const { return *sequences.front(); }
};

}  // namespace baton
