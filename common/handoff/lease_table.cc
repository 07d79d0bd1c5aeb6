#include "common/handoff/lease_table.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"
#include "common/base/status.h"

namespace baton {
namespace {

std::vector<BlockId> AllBlocks(const Lease& lease) {
  std::vector<BlockId> blocks = lease.prompt_blocks;
  blocks.insert(blocks.end(), lease.growth_blocks.begin(), lease.growth_blocks.end());
  return blocks;
}

}  // namespace

LeaseTable::LeaseTable(const LeaseLimits& limits, BlockPool* pool, const Clock* clock)
    : limits_(limits), pool_(pool), clock_(clock), generation_(RandomU64()) {}

absl::StatusOr<Lease> LeaseTable::Reserve(uint32_t prompt_tokens, uint32_t prompt_blocks, uint32_t choices,
                                          OnLeaseEnd on_end) {
  if (must_restart()) {
    return Unavailable("%d KV blocks are quarantined, %d may be: this worker must restart", quarantined_blocks_,
                       limits_.max_quarantined_blocks);
  }
  const uint64_t needed = uint64_t{prompt_blocks} + choices;
  if (needed > limits_.max_leased_blocks) {
    return FailedPrecondition("lease needs %d KV blocks, %d may be leased at most", needed, limits_.max_leased_blocks);
  }
  if (leased_blocks_ + needed > limits_.max_leased_blocks) {
    return ResourceExhausted("lease needs %d KV blocks, %d of the %d that may be leased are", needed, leased_blocks_,
                             limits_.max_leased_blocks);
  }
  BATON_ASSIGN_OR_RETURN(std::vector<BlockId> blocks, pool_->Lease(static_cast<uint32_t>(needed)));
  leased_blocks_ += static_cast<uint32_t>(needed);
  auto lease = std::make_unique<Lease>();
  lease->key = LeaseKey{LeaseId{next_lease_++}, generation_, RandomU64()};
  lease->prompt_tokens = prompt_tokens;
  lease->choices = choices;
  lease->prompt_blocks.assign(blocks.begin(), blocks.begin() + prompt_blocks);
  lease->growth_blocks.assign(blocks.begin() + prompt_blocks, blocks.end());
  Lease granted = *lease;
  lease->on_end = std::move(on_end);
  leases_.emplace(granted.key.lease, std::move(lease));
  return granted;
}

absl::Status LeaseTable::Renew(const LeaseKey& key) {
  Lease* lease = Match(key);
  if (lease == nullptr || !lease->on_end) return NotFound("lease %d is over", key.lease.value);
  lease->deadline = clock_->Now() + limits_.duration;
  return absl::OkStatus();
}

void LeaseTable::Cancel(const LeaseKey& key) {
  Lease* lease = Match(key);
  if (lease == nullptr || !lease->on_end) return;
  ++counts_.cancelled;
  Notify(*lease, Cancelled("the request was cancelled"));
  if (lease->state == LeaseState::kLeased) {
    Close(*lease, LeaseAnswer::kDiscarded, "cancelled");
  } else if (lease->state == LeaseState::kAttached) {
    lease->state = LeaseState::kCancelled;
    lease->deadline = clock_->Now() + limits_.duration;
  }
}

void LeaseTable::Withdraw(const LeaseKey& key) {
  Lease* lease = Match(key);
  if (lease == nullptr) return;
  lease->on_end = nullptr;
  Close(*lease, LeaseAnswer::kDiscarded, "withdrawn");
}

AnswerMessage LeaseTable::Attach(Incarnation peer, const LeaseKey& key) {
  Lease* lease = Match(key);
  if (lease == nullptr) return AnswerOfTheDead(peer, key);
  if (lease->writer && *lease->writer != peer) return Refuse(key, "attached to another writer");
  switch (lease->state) {
    case LeaseState::kLeased:
      lease->state = LeaseState::kAttached;
      lease->writer = peer;
      [[fallthrough]];
    case LeaseState::kAttached:
      return AnswerMessage{key.lease, LeaseAnswer::kAttached, ""};
    case LeaseState::kVerifying:
      return Refuse(key, "already committed, being verified");
    case LeaseState::kCancelled:
    case LeaseState::kQuarantined:
      break;
  }
  return Discard(key, "cancelled or expired");
}

LeaseTable::CommitStart LeaseTable::BeginCommit(Incarnation peer, const LeaseKey& key) {
  using Kind = CommitStart::Kind;
  Lease* lease = Match(key);
  if (lease == nullptr) return {Kind::kAnswered, AnswerOfTheDead(peer, key)};
  if (!lease->writer) return {Kind::kAnswered, Refuse(key, "commit without attach")};
  if (*lease->writer != peer) return {Kind::kAnswered, Refuse(key, "attached to another writer")};
  switch (lease->state) {
    case LeaseState::kLeased:
    case LeaseState::kAttached:
      break;
    case LeaseState::kVerifying:
      return {Kind::kAlreadyVerifying};
    case LeaseState::kCancelled:
    case LeaseState::kQuarantined:
      // The commit follows the writer's last flush, so it is as good as a fence.
      Close(*lease, LeaseAnswer::kDiscarded, "cancelled or expired before the commit");
      return {Kind::kAnswered, AnswerOfTheDead(peer, key)};
  }
  if (lease->copies > 0) {
    const std::string reason = "commit before the last write was flushed";
    Notify(*lease, FailedPrecondition("%s", reason));
    Close(*lease, LeaseAnswer::kRefused, reason);
    return {Kind::kAnswered, AnswerOfTheDead(peer, key)};
  }
  lease->state = LeaseState::kVerifying;
  return {Kind::kVerify, {}, lease};
}

AnswerMessage LeaseTable::FinishCommit(LeaseId id, const absl::Status& verified, std::vector<FirstToken> first_tokens) {
  const auto found = leases_.find(id);
  BATON_CHECK(found != leases_.end() && found->second->state == LeaseState::kVerifying);
  Lease& lease = *found->second;
  const LeaseKey key = lease.key;
  const std::optional<Incarnation> writer = lease.writer;
  if (verified.code() == absl::StatusCode::kDataLoss) ++counts_.checksum_mismatches;
  if (!lease.on_end) {
    Close(lease, LeaseAnswer::kDiscarded, "cancelled while the commit was verified");
  } else if (!verified.ok()) {
    Notify(lease, verified);
    Close(lease, LeaseAnswer::kRefused, StatusMessage(verified));
  } else {
    ++counts_.committed;
    std::vector<BlockId> blocks = AllBlocks(lease);
    pool_->CommitLease(blocks);
    leased_blocks_ -= static_cast<uint32_t>(blocks.size());
    Notify(lease, CommittedHandoff{std::move(first_tokens), std::move(blocks)});
    Bury(lease, LeaseAnswer::kCommitted, "");
  }
  return AnswerOfTheDead(writer, key);
}

AnswerMessage LeaseTable::Fence(std::optional<Incarnation> peer, const FenceMessage& message) {
  Lease* lease = Match(message.key);
  if (lease == nullptr) return AnswerOfTheDead(peer, message.key);
  if (peer && lease->writer && *lease->writer != *peer) return Refuse(message.key, "attached to another writer");
  if (lease->on_end) {
    ++counts_.fenced;
    Notify(*lease, Aborted("the prefill worker gave up: %s", message.reason));
  }
  const std::string reason = "fenced: " + message.reason;
  if (lease->state != LeaseState::kVerifying) Close(*lease, LeaseAnswer::kDiscarded, reason);
  return AnswerMessage{message.key.lease, LeaseAnswer::kDiscarded, reason};
}

void LeaseTable::OnPeerEvent(Incarnation peer, PeerEvent event) {
  if (event == PeerEvent::kRecovered) return;
  std::vector<Lease*> held;
  for (const auto& [id, lease] : leases_) {
    // A verifying lease has seen its writer's last flush.
    if (lease->writer == peer && lease->state != LeaseState::kVerifying) held.push_back(lease.get());
  }
  for (Lease* lease : held) {
    if (lease->on_end) {
      ++counts_.writer_lost;
      Notify(*lease,
             Unavailable("%s", event == PeerEvent::kGone      ? "the prefill worker exited"
                               : event == PeerEvent::kSuspect ? "the prefill worker is silent"
                                                              : "the connection of the prefill worker is lost"));
    }
    if (event == PeerEvent::kGone) {
      Close(*lease, LeaseAnswer::kDiscarded, "writer gone");
    } else if (lease->state != LeaseState::kQuarantined) {
      Quarantine(*lease);
    }
  }
}

void LeaseTable::Reap() {
  const TimePoint now = clock_->Now();
  std::vector<Lease*> due;
  for (const auto& [id, lease] : leases_) {
    if (lease->deadline <= now && lease->state != LeaseState::kVerifying && lease->state != LeaseState::kQuarantined) {
      due.push_back(lease.get());
    }
  }
  for (Lease* lease : due) {
    if (lease->on_end) {
      ++counts_.expired;
      Notify(*lease, DeadlineExceeded("lease %d expired after %g s without a renewal", lease->key.lease.value,
                                      Seconds(limits_.duration)));
    }
    if (lease->state == LeaseState::kLeased) {
      Close(*lease, LeaseAnswer::kDiscarded, "expired");
    } else {
      Quarantine(*lease);
    }
  }
  while (!tombstone_order_.empty() && tombstones_.at(tombstone_order_.front()).expires <= now) {
    tombstones_.erase(tombstone_order_.front());
    tombstone_order_.pop_front();
  }
}

void LeaseTable::EndAll(const absl::Status& why) {
  std::vector<Lease*> open;
  for (const auto& [id, lease] : leases_) open.push_back(lease.get());
  for (Lease* lease : open) {
    if (lease->on_end) Notify(*lease, why);
    if (lease->state == LeaseState::kLeased || lease->state == LeaseState::kVerifying) {
      Close(*lease, LeaseAnswer::kDiscarded, StatusMessage(why));
    } else if (lease->state != LeaseState::kQuarantined) {
      Quarantine(*lease);
    }
  }
}

bool LeaseTable::Admit(const WriteStamp& stamp, uint64_t offset, uint64_t bytes) {
  const auto found = leases_.find(stamp.lease);
  const bool live = found != leases_.end() && found->second->key.generation == stamp.generation &&
                    found->second->state == LeaseState::kAttached;
  if (live && bytes > 0 && offset <= UINT64_MAX - bytes) {
    const uint64_t first = offset / limits_.block_bytes;
    const uint64_t last = (offset + bytes - 1) / limits_.block_bytes;
    // Ascending and unique, so a run of adjacent blocks is inside exactly when its ends are and nothing lies between.
    const std::vector<BlockId>& blocks = found->second->prompt_blocks;
    const auto at = std::lower_bound(blocks.begin(), blocks.end(), first);
    if (static_cast<uint64_t>(blocks.end() - at) > last - first && *at == first && at[last - first] == last) {
      ++found->second->copies;
      return true;
    }
  }
  ++counts_.late_writes_refused;
  return false;
}

void LeaseTable::Written(const WriteStamp& stamp) {
  if (const auto found = leases_.find(stamp.lease); found != leases_.end()) {
    BATON_CHECK(found->second->copies > 0);
    --found->second->copies;
    return;
  }
  const auto drained = draining_.find(stamp.lease);
  BATON_CHECK(drained != draining_.end());
  if (--drained->second.copies > 0) return;
  FreeBlocks(drained->second.blocks, drained->second.quarantined);
  draining_.erase(drained);
}

const Lease* LeaseTable::Find(LeaseId lease) const {
  const auto found = leases_.find(lease);
  return found == leases_.end() ? nullptr : found->second.get();
}

Lease* LeaseTable::Match(const LeaseKey& key) {
  const auto found = leases_.find(key.lease);
  return found != leases_.end() && found->second->key == key ? found->second.get() : nullptr;
}

// The answer to a message whose key matches no open lease.
AnswerMessage LeaseTable::AnswerOfTheDead(std::optional<Incarnation> peer, const LeaseKey& key) {
  const auto found = tombstones_.find(key.lease);
  if (found == tombstones_.end()) {
    return Refuse(key, leases_.contains(key.lease) ? "wrong generation or secret" : "unknown lease");
  }
  const Tombstone& tombstone = found->second;
  if (tombstone.key != key) return Refuse(key, "wrong generation or secret");
  if (peer && tombstone.writer && *tombstone.writer != *peer) return Refuse(key, "attached to another writer");
  switch (tombstone.answer) {
    case LeaseAnswer::kRefused:
      return Refuse(key, tombstone.reason);
    case LeaseAnswer::kDiscarded:
      return Discard(key, tombstone.reason);
    case LeaseAnswer::kCommitted:
    case LeaseAnswer::kAttached:
      break;
  }
  return AnswerMessage{key.lease, LeaseAnswer::kCommitted, ""};
}

AnswerMessage LeaseTable::Refuse(const LeaseKey& key, std::string reason) {
  ++counts_.refused;
  return AnswerMessage{key.lease, LeaseAnswer::kRefused, std::move(reason)};
}

AnswerMessage LeaseTable::Discard(const LeaseKey& key, std::string reason) {
  ++counts_.discarded;
  return AnswerMessage{key.lease, LeaseAnswer::kDiscarded, std::move(reason)};
}

void LeaseTable::Notify(Lease& lease, absl::StatusOr<CommittedHandoff> result) {
  ends_.push_back([on_end = std::exchange(lease.on_end, nullptr), result = std::move(result)]() mutable {
    on_end(std::move(result));
  });
}

void LeaseTable::Quarantine(Lease& lease) {
  const std::vector<BlockId> blocks = AllBlocks(lease);
  pool_->Quarantine(blocks);
  leased_blocks_ -= static_cast<uint32_t>(blocks.size());
  quarantined_blocks_ += static_cast<uint32_t>(blocks.size());
  lease.state = LeaseState::kQuarantined;
}

void LeaseTable::FreeBlocks(const std::vector<BlockId>& blocks, bool quarantined) {
  if (quarantined) {
    pool_->FreeQuarantined(blocks);
    quarantined_blocks_ -= static_cast<uint32_t>(blocks.size());
  } else {
    pool_->FreeLease(blocks);
    leased_blocks_ -= static_cast<uint32_t>(blocks.size());
  }
}

// No write can start any more: gives the blocks back, once copies that were admitted have ended.
void LeaseTable::Close(Lease& lease, LeaseAnswer answer, std::string reason) {
  std::vector<BlockId> blocks = AllBlocks(lease);
  const bool quarantined = lease.state == LeaseState::kQuarantined;
  if (lease.copies > 0) {
    draining_.emplace(lease.key.lease, Draining{lease.copies, std::move(blocks), quarantined});
  } else {
    FreeBlocks(blocks, quarantined);
  }
  Bury(lease, answer, std::move(reason));
}

void LeaseTable::Bury(Lease& lease, LeaseAnswer answer, std::string reason) {
  const LeaseId id = lease.key.lease;
  tombstones_.emplace(
      id, Tombstone{lease.key, lease.writer, answer, std::move(reason), clock_->Now() + limits_.tombstone_duration});
  tombstone_order_.push_back(id);
  if (tombstone_order_.size() > limits_.max_tombstones) {
    tombstones_.erase(tombstone_order_.front());
    tombstone_order_.pop_front();
  }
  leases_.erase(id);
}

}  // namespace baton
