#pragma once

// The prefill worker's side: connects to decode workers (one control connection and one transport session each, kept
// and shared), pushes finished blocks while the next chunk computes, commits or fences.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/handoff/lease_offer.h"
#include "common/kv/pool_memory.h"
#include "common/transport/control_connection.h"
#include "common/transport/kv_transport.h"

namespace baton {

enum class HandoffOutcome : uint8_t { kCommitted, kDiscarded, kRefused, kFenced, kFailed };

struct HandoffResult {
  HandoffOutcome outcome = HandoffOutcome::kFailed;
  std::string reason;           // empty for kCommitted
  bool fence_delivered = true;  // false: a fence is owed and could not be sent; the router relays it
  uint64_t bytes = 0, blocks = 0;
  Duration transfer{0};  // during which a put of it was under way; the computation between two chunks is left out
  Duration tail{0};      // Commit called to answer: what the transfer adds after the last chunk
  std::string lane;
  struct ChunkTimes {
    TimePoint pushed;  // PushBlocks (or Commit) was called: the chunk's computation had just ended
    TimePoint put_started, put_flushed;
    uint32_t blocks;
  };
  std::vector<ChunkTimes> chunks;  // one for each PushBlocks that moved something
};

// One handoff. Thread-safe; no call blocks.
class OutgoingHandoff {
 public:
  virtual ~OutgoingHandoff() = default;
  // KV of prompt positions [0, tokens_done) is final in `blocks` (this worker's ids for the whole prompt): puts the
  // blocks that became final since the last call. Calls made before the connection and attach are ready are kept.
  virtual void PushBlocks(uint32_t tokens_done, std::span<const BlockId> blocks) = 0;
  // All of the prompt was pushed: flush, then commit.
  virtual void Commit(uint32_t prompt_tokens, std::vector<FirstToken> first_tokens) = 0;
  // Stop: no put starts any more; when those under way are flushed, fence.
  virtual void Abort(std::string reason) = 0;
};

class HandoffSender {
 public:
  // `memory`, this worker's own pool, `transport` and `clock` outlive it. Owns one thread, and one
  // for each target, which connects, puts and asks for checksums: a target that does not answer holds up no other.
  static std::unique_ptr<HandoffSender> Create(const ControlOptions& options, std::string name, NumericsHash numerics,
                                               Incarnation self, PoolMemory* memory, KvTransport* transport,
                                               const Clock* clock);
  virtual ~HandoffSender() = default;
  // `on_done` is called exactly once, from one of the sender's threads; after it nothing reads this worker's blocks for
  // this handoff. Errors of the offer, of connecting and of hashes arrive there too.
  virtual std::shared_ptr<OutgoingHandoff> Begin(const LeaseOffer& offer,
                                                 std::function<void(const HandoffResult&)> on_done) = 0;
};

}  // namespace baton
