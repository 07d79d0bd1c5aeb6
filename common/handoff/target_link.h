#pragma once

// One decode worker as a prefill worker sees it: its control connection, its transport session, the handoffs under way.
// One thread does everything, so a target that does not answer holds up nobody else's handoffs.
//
// Order of closing: the session first, then the control connection. The target takes the latter's end as proof that no
// write follows.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/handoff/event_loop.h"
#include "common/handoff/outgoing_transfer.h"
#include "common/handoff/sender.h"
#include "common/transport/control_connection.h"
#include "common/transport/kv_transport.h"

namespace baton {

struct LinkContext {
  TransferContext transfer;
  ControlOptions control;
  ControlHello self;  // its secret is the target's, so each link sets it
  KvTransport* transport = nullptr;
};

class TargetLink final : private TransferWires {
 public:
  // `on_idle` is called on the link's thread when it may have become idle. `context` outlives the link.
  TargetLink(const LinkContext* context, TargetDescriptor target, std::function<void()> on_idle);
  // Ends every handoff, then closes.
  ~TargetLink() override;

  // Any thread. Aborts that come while the link connects are reported on `sender_queue`.
  std::shared_ptr<OutgoingHandoff> Begin(LeaseOffer offer, std::function<void(const HandoffResult&)> on_done,
                                         std::shared_ptr<EventQueue> sender_queue);
  // No handoff and no connection: not worth keeping.
  bool idle() const { return transfers_begun_ == transfers_ended_ && !connected_; }

 private:
  friend class LinkedHandoff;

  // Everything below runs on the loop's thread.
  void SendAttach(uint64_t transfer, const AttachMessage& message) override;
  void SendCommit(uint64_t transfer, const CommitMessage& message) override;
  void SendFence(uint64_t transfer, const FenceMessage& message) override;
  absl::Status Put(uint64_t transfer, size_t chunk, const WriteStamp& stamp, std::span<const PutRun> runs) override;
  std::string_view lane() const override { return session_->lane(); }

  void OnBegin(uint64_t id, LeaseOffer offer, std::shared_ptr<TransferEnd> end);
  absl::Status ConnectControl();
  absl::Status ConnectSession();
  void OnPeerEvent(uint64_t connection, PeerEvent event);
  void OnFlushed(uint64_t session, uint64_t transfer, size_t chunk, TimePoint when, const absl::Status& status);
  ControlClient::OnAnswer AnswerTo(uint64_t transfer,
                                   std::function<void(OutgoingTransfer&, const AnswerMessage&)> deliver);
  void DropSession(const std::string& reason);
  enum class Target : uint8_t { kMayAnswer, kSilent, kGone };
  void DropConnection(const std::string& reason, Target target);
  void Close();
  void EndMuteTarget();
  void Shutdown();
  void With(uint64_t transfer, const std::function<void(OutgoingTransfer&)>& action);
  std::vector<uint64_t> TransferIds() const;

  const LinkContext* const context_;
  const TargetDescriptor target_;
  const std::function<void()> on_idle_;
  std::atomic<uint64_t> transfers_begun_{0};
  std::atomic<uint64_t> transfers_ended_{0};
  std::atomic<bool> connected_{false};

  std::unique_ptr<ControlClient> control_;
  std::unique_ptr<KvSession> session_;
  uint64_t connection_number_ = 0;  // events of earlier ones are old news
  uint64_t session_number_ = 0;
  uint64_t failed_through_ = 0;  // transfers begun up to here share the failure of one attempt to connect
  absl::Status connect_failure_;
  bool shutting_down_ = false;
  absl::flat_hash_map<uint64_t, std::unique_ptr<OutgoingTransfer>> transfers_;

  EventLoop loop_;  // last: its thread uses the rest
};

}  // namespace baton
