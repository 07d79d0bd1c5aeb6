#include "common/handoff/target_link.h"

#include <utility>

#include "common/base/status.h"

namespace baton {
namespace {

// A target whose heartbeats come but whose answers do not is as good as silent.
constexpr Duration kAnswerTimeout = std::chrono::seconds(30);

}  // namespace

// What the engine holds: posts to the link, which may be gone by then.
class LinkedHandoff final : public OutgoingHandoff {
 public:
  LinkedHandoff(TargetLink* link, uint64_t id, std::shared_ptr<TransferEnd> end,
                std::shared_ptr<EventQueue> sender_queue, const Clock* clock)
      : link_(link),
        queue_(link->loop_.queue()),
        id_(id),
        end_(std::move(end)),
        sender_queue_(std::move(sender_queue)),
        clock_(clock) {}
  ~LinkedHandoff() override {
    if (!settled_) Abort("the handoff was given up without a commit");
  }

  void PushBlocks(uint32_t tokens_done, std::span<const BlockId> blocks) override {
    Tell([tokens_done, table = std::vector<BlockId>(blocks.begin(), blocks.end()), now = clock_->Now()](
             OutgoingTransfer& transfer) mutable { transfer.Push(tokens_done, std::move(table), now); });
  }
  void Commit(uint32_t prompt_tokens, std::vector<FirstToken> first_tokens) override {
    settled_ = true;
    Tell([prompt_tokens, tokens = std::move(first_tokens), now = clock_->Now()](OutgoingTransfer& transfer) mutable {
      transfer.Commit(prompt_tokens, std::move(tokens), now);
    });
  }
  void Abort(std::string reason) override {
    settled_ = true;
    if (end_->Claim()) {
      HandoffResult result;
      result.outcome = HandoffOutcome::kFenced;
      result.reason = reason;
      const auto report = [end = end_, result] { end->on_done(result); };
      if (!sender_queue_->Post(report)) report();
      return;
    }
    Tell([reason = std::move(reason)](OutgoingTransfer& transfer) { transfer.Abort(reason); });
  }

 private:
  template <typename Action>
  void Tell(Action action) {
    queue_->Post([link = link_, id = id_, action = std::move(action)]() mutable { link->With(id, std::move(action)); });
  }

  TargetLink* const link_;  // used by events of its own loop only
  const std::shared_ptr<EventQueue> queue_;
  const uint64_t id_;
  const std::shared_ptr<TransferEnd> end_;
  const std::shared_ptr<EventQueue> sender_queue_;
  const Clock* const clock_;
  std::atomic<bool> settled_{false};
};

TargetLink::TargetLink(const LinkContext* context, TargetDescriptor target, std::function<void()> on_idle)
    : context_(context), target_(std::move(target)), on_idle_(std::move(on_idle)), loop_([this] { EndMuteTarget(); }) {}

TargetLink::~TargetLink() {
  loop_.queue()->Post([this] { Shutdown(); });
}

std::shared_ptr<OutgoingHandoff> TargetLink::Begin(LeaseOffer offer, std::function<void(const HandoffResult&)> on_done,
                                                   std::shared_ptr<EventQueue> sender_queue) {
  const uint64_t id = ++transfers_begun_;
  auto end = std::make_shared<TransferEnd>();
  end->on_done = std::move(on_done);
  loop_.queue()->Post([this, id, offer = std::move(offer), end]() mutable { OnBegin(id, std::move(offer), end); });
  return std::make_shared<LinkedHandoff>(this, id, std::move(end), std::move(sender_queue), context_->transfer.clock);
}

void TargetLink::OnBegin(uint64_t id, LeaseOffer offer, std::shared_ptr<TransferEnd> end) {
  transfers_.emplace(id, std::make_unique<OutgoingTransfer>(id, std::move(offer), target_.key_order, std::move(end),
                                                            &context_->transfer, static_cast<TransferWires*>(this)));
  absl::Status connected;
  if (shutting_down_) {
    connected = Unavailable("the sender shuts down");
  } else if (id <= failed_through_) {
    connected = connect_failure_;
  } else {
    connected = ConnectControl();
    if (connected.ok()) connected = ConnectSession();
    if (!connected.ok()) {
      failed_through_ = transfers_begun_;
      connect_failure_ = connected;
    }
  }
  With(id, [&](OutgoingTransfer& transfer) {
    if (connected.ok()) {
      transfer.Start();
    } else {
      transfer.Refuse(connected.code() == absl::StatusCode::kFailedPrecondition ? HandoffOutcome::kRefused
                                                                                : HandoffOutcome::kFailed,
                      StatusMessage(connected));
    }
  });
}

absl::Status TargetLink::ConnectControl() {
  if (control_ != nullptr) return absl::OkStatus();
  const uint64_t number = ++connection_number_;
  ControlHello self = context_->self;
  self.secret = target_.secret;
  auto control = ControlClient::Connect(target_.control_host, target_.control_port, self, target_.incarnation,
                                        context_->control, [this, queue = loop_.queue(), number](PeerEvent event) {
                                          queue->Post([this, number, event] { OnPeerEvent(number, event); });
                                        });
  BATON_RETURN_IF_ERROR(control.status());
  control_ = *std::move(control);
  connected_ = true;
  return absl::OkStatus();
}

absl::Status TargetLink::ConnectSession() {
  if (session_ != nullptr) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(session_,
                         context_->transport->Connect(target_.transport_descriptor,
                                                      PutSource{context_->transfer.memory, target_.key_order}));
  ++session_number_;
  return absl::OkStatus();
}

void TargetLink::SendAttach(uint64_t transfer, const AttachMessage& message) {
  control_->Attach(
      message, AnswerTo(transfer, [](OutgoingTransfer& to, const AnswerMessage& answer) { to.OnAttached(answer); }));
}

void TargetLink::SendCommit(uint64_t transfer, const CommitMessage& message) {
  control_->Commit(message, AnswerTo(transfer, [](OutgoingTransfer& to, const AnswerMessage& answer) {
                     to.OnCommitAnswer(answer);
                   }));
}

void TargetLink::SendFence(uint64_t transfer, const FenceMessage& message) {
  control_->Fence(message, AnswerTo(transfer, [](OutgoingTransfer& to, const AnswerMessage&) { to.OnFenceAnswer(); }));
}

absl::Status TargetLink::Put(uint64_t transfer, size_t chunk, const WriteStamp& stamp, std::span<const PutRun> runs) {
  if (const absl::Status put = session_->Put(stamp, runs); !put.ok()) {
    if (put.code() != absl::StatusCode::kOutOfRange && put.code() != absl::StatusCode::kInvalidArgument) {
      loop_.queue()->Post([this, number = session_number_, put] {
        if (number == session_number_) DropSession(StatusMessage(put));
      });
    }
    return put;
  }
  session_->Flush([this, queue = loop_.queue(), number = session_number_, transfer, chunk,
                   clock = context_->transfer.clock](const absl::Status& status) {
    queue->Post([this, number, transfer, chunk, when = clock->Now(), status] {
      OnFlushed(number, transfer, chunk, when, status);
    });
  });
  return absl::OkStatus();
}

void TargetLink::OnFlushed(uint64_t session, uint64_t transfer, size_t chunk, TimePoint when,
                           const absl::Status& status) {
  if (session != session_number_ || session_ == nullptr) return;
  if (!status.ok()) {
    DropSession(StatusMessage(status));
    return;
  }
  With(transfer, [chunk, when](OutgoingTransfer& to) { to.OnFlushed(chunk, when); });
}

ControlClient::OnAnswer TargetLink::AnswerTo(uint64_t transfer,
                                             std::function<void(OutgoingTransfer&, const AnswerMessage&)> deliver) {
  return [this, queue = loop_.queue(), number = connection_number_, transfer,
          deliver = std::move(deliver)](absl::StatusOr<AnswerMessage> answer) {
    queue->Post([this, number, transfer, deliver, answer = std::move(answer)] {
      if (number != connection_number_ || control_ == nullptr) return;
      if (answer.ok()) {
        With(transfer, [&](OutgoingTransfer& to) { deliver(to, *answer); });
      } else if (control_->connected()) {
        // The connection takes no more requests; an ended one reports itself as an event, which says what it proves.
        DropConnection(StatusMessage(answer.status()), Target::kMayAnswer);
      }
    });
  };
}

void TargetLink::OnPeerEvent(uint64_t connection, PeerEvent event) {
  if (connection != connection_number_ || control_ == nullptr) return;
  switch (event) {
    case PeerEvent::kSuspect:
      DropConnection("the decode worker is silent", Target::kSilent);
      return;
    case PeerEvent::kGone:
      DropConnection("the decode worker exited", Target::kGone);
      return;
    case PeerEvent::kLost:
      DropConnection("the control connection is lost", Target::kMayAnswer);
      return;
    case PeerEvent::kRecovered:
      return;
  }
}

// Closing the session waits until nothing reads the sources; the control connection still carries the fences.
void TargetLink::DropSession(const std::string& reason) {
  session_.reset();
  ++session_number_;
  for (const uint64_t id : TransferIds()) {
    With(id, [&](OutgoingTransfer& transfer) { transfer.OnSessionLost(reason); });
  }
}

void TargetLink::Close() {
  session_.reset();
  ++session_number_;
  control_.reset();
  ++connection_number_;
  connected_ = false;
}

void TargetLink::DropConnection(const std::string& reason, Target target) {
  Close();
  std::vector<uint64_t> owing;
  for (const uint64_t id : TransferIds()) {
    With(id, [&](OutgoingTransfer& transfer) {
      if (transfer.OnConnectionLost(reason, target == Target::kGone)) owing.push_back(id);
    });
  }
  // What a handoff still has to say goes over a new connection, if the same process answers there.
  const bool resend = !owing.empty() && target == Target::kMayAnswer && !shutting_down_ && ConnectControl().ok();
  for (const uint64_t id : owing) {
    With(id, [&](OutgoingTransfer& transfer) {
      if (resend && transfer.may_resend()) {
        transfer.Resend();
      } else {
        transfer.GiveUp();
      }
    });
  }
  if (idle()) on_idle_();
}

void TargetLink::EndMuteTarget() {
  const TimePoint now = context_->transfer.clock->Now();
  for (const auto& [id, transfer] : transfers_) {
    if (transfer->waiting_since() <= now - kAnswerTimeout) {
      DropConnection("the decode worker does not answer", Target::kSilent);
      return;
    }
  }
}

void TargetLink::Shutdown() {
  shutting_down_ = true;
  DropConnection("the sender shuts down", Target::kSilent);
}

// The only way events reach a transfer: it may have ended before.
void TargetLink::With(uint64_t transfer, const std::function<void(OutgoingTransfer&)>& action) {
  const auto found = transfers_.find(transfer);
  if (found == transfers_.end()) return;
  action(*found->second);
  if (!found->second->done()) return;
  transfers_.erase(found);
  ++transfers_ended_;
  if (idle()) on_idle_();
}

std::vector<uint64_t> TargetLink::TransferIds() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, transfer] : transfers_) ids.push_back(id);
  return ids;
}

}  // namespace baton
