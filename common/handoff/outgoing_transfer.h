#pragma once

// One handoff as the prefill worker drives it: attach, puts, commit or fence. Plain state machine on its link's thread:
// it asks the link's wires to send, and the link calls it with what came back.
//
//   waiting ─Start─▶ attaching ──▶ open ──all flushed──▶ committing ──▶ done
//      │                 └────┬─────┘                        │
//      └──▶ done              └─Stop─▶ stopping ──flushed──▶ fencing ──▶ done

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/handoff/lease_offer.h"
#include "common/handoff/sender.h"
#include "common/kv/pool_memory.h"
#include "common/transport/control_messages.h"
#include "common/transport/kv_transport.h"

namespace baton {

// What all transfers of a sender share.
struct TransferContext {
  PoolMemory* memory = nullptr;  // this worker's pool
  const Clock* clock = nullptr;
};

// Sends for one transfer; what comes back arrives as calls of OutgoingTransfer. Implemented by its link.
class TransferWires {
 public:
  virtual ~TransferWires() = default;
  virtual void SendAttach(uint64_t transfer, const AttachMessage& message) = 0;
  virtual void SendCommit(uint64_t transfer, const CommitMessage& message) = 0;
  virtual void SendFence(uint64_t transfer, const FenceMessage& message) = 0;
  // Puts and flushes; the flush comes back as OnFlushed(chunk). On error nothing was started.
  virtual absl::Status Put(uint64_t transfer, size_t chunk, const WriteStamp& stamp, std::span<const PutRun> runs) = 0;
  virtual std::string_view lane() const = 0;
};

// Who ends a handoff that has not started: the link, or an Abort that need not wait for a connect under way.
struct TransferEnd {
  std::atomic<bool> claimed{false};
  std::function<void(const HandoffResult&)> on_done;
  bool Claim() { return !claimed.exchange(true); }
};

class OutgoingTransfer {
 public:
  // `key_order` is the target's.
  OutgoingTransfer(uint64_t id, LeaseOffer offer, KeyOrder key_order, std::shared_ptr<TransferEnd> end,
                   const TransferContext* context, TransferWires* wires);

  uint64_t id() const { return id_; }
  bool done() const { return stage_ == Stage::kDone; }

  void Start();  // the connection is there
  void Push(uint32_t tokens_done, std::vector<BlockId> blocks, TimePoint called);
  void Commit(uint32_t prompt_tokens, std::vector<FirstToken> first_tokens, TimePoint called);
  void Abort(const std::string& reason);

  void OnAttached(const AnswerMessage& answer);
  void OnFlushed(size_t chunk, TimePoint when);
  void OnCommitAnswer(const AnswerMessage& answer);
  void OnFenceAnswer();

  // It never started.
  void Refuse(HandoffOutcome outcome, const std::string& reason);
  // The session is closed: nothing reads the sources any more and no put starts.
  void OnSessionLost(const std::string& reason);
  // Session and control connection are closed. False when the handoff is done; true when it owes the target a word:
  // then Resend must follow, once at most, or GiveUp.
  bool OnConnectionLost(const std::string& reason, bool target_gone);
  bool may_resend() const { return !resent_; }
  void Resend();
  void GiveUp();

  // Since when it waits for an answer of the target; TimePoint::max() when it does not.
  TimePoint waiting_since() const { return waiting_since_; }

 private:
  enum class Stage : uint8_t { kWaiting, kAttaching, kOpen, kCommitting, kStopping, kFencing, kDone };
  struct PushCall {
    uint32_t tokens_done;
    std::vector<BlockId> blocks;
    TimePoint called;
  };
  struct CommitCall {
    uint32_t prompt_tokens;
    std::vector<FirstToken> first_tokens;
    TimePoint called;
  };

  void ApplyPush(PushCall call);
  void ApplyCommit();
  void PutUpTo(uint32_t last, TimePoint pushed);
  void SendCommitWhenFlushed();
  void SendFenceWhenFlushed();
  void SendCommit();
  void SendFence();
  void Stop(HandoffOutcome outcome, const std::string& reason);
  void Finish(HandoffOutcome outcome, const std::string& reason);
  uint32_t prompt_blocks() const { return offer_.first_block + static_cast<uint32_t>(offer_.blocks.size()); }

  const uint64_t id_;
  const LeaseOffer offer_;
  const KeyOrder key_order_;
  const std::shared_ptr<TransferEnd> end_;
  const TransferContext* const context_;
  TransferWires* const wires_;

  Stage stage_ = Stage::kWaiting;
  std::deque<PushCall> early_pushes_;  // before the target said "attached"
  std::optional<CommitCall> commit_;
  std::vector<BlockId> blocks_;  // of the last push
  uint32_t tokens_done_ = 0;
  uint32_t next_block_;              // first prompt block that was not put
  std::vector<uint64_t> checksums_;  // of blocks [offer.first_block, next_block_)
  size_t open_flushes_ = 0;
  TimePoint flushed_until_;  // start of what transfer time is not counted yet
  HandoffOutcome stop_outcome_ = HandoffOutcome::kFailed;
  std::string stop_reason_;
  bool resent_ = false;
  TimePoint waiting_since_ = TimePoint::max();
  HandoffResult result_;
};

}  // namespace baton
