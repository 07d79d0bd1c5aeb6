#include "common/handoff/outgoing_transfer.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/handoff/put_plan.h"

namespace baton {

OutgoingTransfer::OutgoingTransfer(uint64_t id, LeaseOffer offer, KeyOrder key_order, std::shared_ptr<TransferEnd> end,
                                   const TransferContext* context, TransferWires* wires)
    : id_(id),
      offer_(std::move(offer)),
      key_order_(key_order),
      end_(std::move(end)),
      context_(context),
      wires_(wires),
      next_block_(offer_.first_block) {}

void OutgoingTransfer::Start() {
  if (stage_ != Stage::kWaiting) return;
  if (!end_->Claim()) {  // aborted while the link connected
    stage_ = Stage::kDone;
    return;
  }
  stage_ = Stage::kAttaching;
  result_.lane = std::string(wires_->lane());
  waiting_since_ = context_->clock->Now();
  wires_->SendAttach(id_, AttachMessage{offer_.key});
}

void OutgoingTransfer::Push(uint32_t tokens_done, std::vector<BlockId> blocks, TimePoint called) {
  PushCall call{tokens_done, std::move(blocks), called};
  if (stage_ == Stage::kWaiting || stage_ == Stage::kAttaching) {
    early_pushes_.push_back(std::move(call));
  } else if (stage_ == Stage::kOpen) {
    ApplyPush(std::move(call));
  }
}

void OutgoingTransfer::Commit(uint32_t prompt_tokens, std::vector<FirstToken> first_tokens, TimePoint called) {
  if (commit_) return;
  commit_ = CommitCall{prompt_tokens, std::move(first_tokens), called};
  if (stage_ == Stage::kOpen) ApplyCommit();
}

void OutgoingTransfer::Abort(const std::string& reason) {
  switch (stage_) {
    case Stage::kWaiting:
      Refuse(HandoffOutcome::kFenced, reason);
      return;
    case Stage::kAttaching:
    case Stage::kOpen:
      Stop(HandoffOutcome::kFenced, reason);
      return;
    case Stage::kCommitting:
      // The commit may win; its answer decides.
      wires_->SendFence(id_, FenceMessage{offer_.key, reason});
      return;
    case Stage::kStopping:
    case Stage::kFencing:
    case Stage::kDone:
      return;
  }
}

void OutgoingTransfer::OnAttached(const AnswerMessage& answer) {
  if (stage_ != Stage::kAttaching) return;
  waiting_since_ = TimePoint::max();
  if (answer.answer != LeaseAnswer::kAttached) {
    // Nothing was written and nothing is owed.
    Finish(answer.answer == LeaseAnswer::kDiscarded ? HandoffOutcome::kDiscarded : HandoffOutcome::kRefused,
           answer.reason);
    return;
  }
  stage_ = Stage::kOpen;
  for (PushCall& call : std::exchange(early_pushes_, {})) {
    if (stage_ == Stage::kOpen) ApplyPush(std::move(call));
  }
  if (stage_ == Stage::kOpen && commit_) ApplyCommit();
}

void OutgoingTransfer::ApplyPush(PushCall call) {
  if (call.tokens_done <= tokens_done_) return;
  tokens_done_ = call.tokens_done;
  blocks_ = std::move(call.blocks);
  // A block that is filled in part may still change; the prompt's last one goes with the commit.
  PutUpTo(std::min(tokens_done_ / context_->memory->layout().block_size, prompt_blocks()), call.called);
}

void OutgoingTransfer::ApplyCommit() {
  if (context_->memory->layout().BlocksFor(commit_->prompt_tokens) != prompt_blocks()) {
    Stop(HandoffOutcome::kFailed,
         absl::StrFormat("prompt of %d tokens ends in block %d, the lease in block %d", commit_->prompt_tokens,
                         context_->memory->layout().BlocksFor(commit_->prompt_tokens), prompt_blocks()));
    return;
  }
  if (tokens_done_ != commit_->prompt_tokens) {
    Stop(HandoffOutcome::kFailed,
         absl::StrFormat("commit of %d prompt tokens, KV of %d was pushed", commit_->prompt_tokens, tokens_done_));
    return;
  }
  PutUpTo(prompt_blocks(), commit_->called);
  SendCommitWhenFlushed();
}

// Checksums follow the put, so that hashing overlaps with the transfer.
void OutgoingTransfer::PutUpTo(uint32_t last, TimePoint pushed) {
  if (last <= next_block_) return;
  const auto runs = PlanPuts(*context_->memory, key_order_, offer_, blocks_, next_block_, last);
  if (!runs.ok()) {
    Stop(HandoffOutcome::kFailed, StatusMessage(runs.status()));
    return;
  }
  const TimePoint now = context_->clock->Now();
  const size_t chunk = result_.chunks.size();
  const WriteStamp stamp{offer_.key.lease, offer_.key.generation};
  if (const absl::Status put = wires_->Put(id_, chunk, stamp, *runs); !put.ok()) {
    Stop(HandoffOutcome::kFailed, StatusMessage(put));
    return;
  }
  ++open_flushes_;
  result_.chunks.push_back({pushed, now, now, last - next_block_});
  result_.blocks += last - next_block_;
  result_.bytes += (last - next_block_) * context_->memory->layout().BytesPerBlock();
  const size_t hashed = checksums_.size();
  checksums_.resize(hashed + last - next_block_);
  const absl::Status checksums =
      context_->memory->Checksums(std::span(blocks_).subspan(next_block_, last - next_block_), key_order_,
                                  StepOrder::kBehind, std::span(checksums_).subspan(hashed));
  next_block_ = last;
  if (!checksums.ok()) Stop(HandoffOutcome::kFailed, StatusMessage(checksums));
}

void OutgoingTransfer::OnFlushed(size_t chunk, TimePoint when) {
  if (open_flushes_ == 0) return;  // its session is lost
  --open_flushes_;
  HandoffResult::ChunkTimes& times = result_.chunks[chunk];
  times.put_flushed = when;
  result_.transfer += std::max(Duration::zero(), when - std::max(times.put_started, flushed_until_));
  flushed_until_ = std::max(flushed_until_, when);
  SendCommitWhenFlushed();
  SendFenceWhenFlushed();
}

void OutgoingTransfer::SendCommitWhenFlushed() {
  if (stage_ != Stage::kOpen || !commit_ || next_block_ != prompt_blocks() || open_flushes_ > 0) return;
  stage_ = Stage::kCommitting;
  SendCommit();
}

void OutgoingTransfer::SendCommit() {
  waiting_since_ = context_->clock->Now();
  wires_->SendCommit(id_, CommitMessage{offer_.key, commit_->prompt_tokens, checksums_, commit_->first_tokens});
}

void OutgoingTransfer::OnCommitAnswer(const AnswerMessage& answer) {
  if (stage_ != Stage::kCommitting) return;
  switch (answer.answer) {
    case LeaseAnswer::kCommitted:
      Finish(HandoffOutcome::kCommitted, "");
      return;
    case LeaseAnswer::kDiscarded:
      Finish(HandoffOutcome::kDiscarded, answer.reason);
      return;
    case LeaseAnswer::kRefused:
    case LeaseAnswer::kAttached:
      break;
  }
  Finish(HandoffOutcome::kRefused, answer.reason);
}

// Ends a handoff that may have written: what was started is flushed, then the target hears that no more comes.
void OutgoingTransfer::Stop(HandoffOutcome outcome, const std::string& reason) {
  stage_ = Stage::kStopping;
  stop_outcome_ = outcome;
  stop_reason_ = reason;
  early_pushes_.clear();
  waiting_since_ = TimePoint::max();
  SendFenceWhenFlushed();
}

void OutgoingTransfer::SendFenceWhenFlushed() {
  if (stage_ != Stage::kStopping || open_flushes_ > 0) return;
  stage_ = Stage::kFencing;
  SendFence();
}

void OutgoingTransfer::SendFence() {
  waiting_since_ = context_->clock->Now();
  wires_->SendFence(id_, FenceMessage{offer_.key, stop_reason_});
}

void OutgoingTransfer::OnFenceAnswer() {
  if (stage_ == Stage::kFencing) Finish(stop_outcome_, stop_reason_);
}

void OutgoingTransfer::Refuse(HandoffOutcome outcome, const std::string& reason) {
  if (end_->Claim()) {
    Finish(outcome, reason);
  } else {
    stage_ = Stage::kDone;
  }
}

void OutgoingTransfer::OnSessionLost(const std::string& reason) {
  open_flushes_ = 0;
  if (stage_ == Stage::kAttaching || stage_ == Stage::kOpen) {
    Stop(HandoffOutcome::kFailed, reason);
  } else {
    SendFenceWhenFlushed();
  }
}

bool OutgoingTransfer::OnConnectionLost(const std::string& reason, bool target_gone) {
  open_flushes_ = 0;
  waiting_since_ = TimePoint::max();
  if (stage_ == Stage::kWaiting) {
    Refuse(HandoffOutcome::kFailed, reason);
    return false;
  }
  if (target_gone) {
    const bool stopped = stage_ == Stage::kStopping || stage_ == Stage::kFencing;
    Finish(stopped ? stop_outcome_ : HandoffOutcome::kFailed, stopped ? stop_reason_ : reason);
    return false;
  }
  if (stage_ == Stage::kAttaching || stage_ == Stage::kOpen) {
    stop_outcome_ = HandoffOutcome::kFailed;
    stop_reason_ = reason;
  }
  if (stage_ != Stage::kCommitting) stage_ = Stage::kFencing;
  return true;
}

void OutgoingTransfer::Resend() {
  resent_ = true;
  // A duplicate commit gets the answer of the first; a discarded one counts as a fence.
  stage_ == Stage::kCommitting ? SendCommit() : SendFence();
}

void OutgoingTransfer::GiveUp() {
  result_.fence_delivered = false;
  Finish(HandoffOutcome::kFailed,
         stage_ == Stage::kCommitting ? "the answer to the commit is lost" : stop_reason_ + "; the fence is owed");
}

void OutgoingTransfer::Finish(HandoffOutcome outcome, const std::string& reason) {
  stage_ = Stage::kDone;
  waiting_since_ = TimePoint::max();
  result_.outcome = outcome;
  result_.reason = reason;
  if (commit_) result_.tail = context_->clock->Now() - commit_->called;
  end_->on_done(result_);
}

}  // namespace baton
