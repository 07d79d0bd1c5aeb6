#include "common/handoff/lease_table.h"

#include <string>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Incarnation kWriter{1};
constexpr Incarnation kStranger{2};
constexpr uint64_t kBlockBytes = 1024;

// 32 blocks of which 16 may be leased and 8 quarantined; leases last 10 s, tombstones 60 s.
class LeaseTableTest : public ::testing::Test {
 protected:
  LeaseTableTest() : LeaseTableTest(LeaseLimits{}) {}
  explicit LeaseTableTest(LeaseLimits limits) : pool_(32) {
    limits.max_leased_blocks = 16;
    limits.max_quarantined_blocks = 8;
    limits.block_bytes = kBlockBytes;
    table_ = std::make_unique<LeaseTable>(limits, &pool_, &clock_);
  }

  // 3 prompt blocks (40 tokens) and 1 growth block.
  Lease Reserve() {
    auto lease = table_->Reserve(40, 3, 1, [this](absl::StatusOr<CommittedHandoff> end) { ends_.push_back(end); });
    EXPECT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE(table_->Renew(lease->key).ok());
    return *lease;
  }
  Lease Attached() {
    const Lease lease = Reserve();
    EXPECT_EQ(table_->Attach(kWriter, lease.key).answer, LeaseAnswer::kAttached);
    return lease;
  }
  AnswerMessage Commit(Incarnation peer, const LeaseKey& key, const absl::Status& verified = absl::OkStatus()) {
    const LeaseTable::CommitStart start = table_->BeginCommit(peer, key);
    if (start.kind != LeaseTable::CommitStart::Kind::kVerify) return start.answer;
    return table_->FinishCommit(key.lease, verified, {{0, 5, false}});
  }
  AnswerMessage Fence(std::optional<Incarnation> peer, const LeaseKey& key) {
    return table_->Fence(peer, FenceMessage{key, "aborted"});
  }
  void Expire() {
    clock_.Advance(std::chrono::seconds(11));
    table_->Reap();
  }
  // The status of the only end so far.
  absl::StatusCode End() {
    RunEnds();
    EXPECT_EQ(ends_.size(), 1u);
    return ends_.empty() ? absl::StatusCode::kUnknown : ends_[0].status().code();
  }
  void RunEnds() {
    for (const auto& end : table_->TakeEnds()) end();
  }
  // The status of one that is for nobody.
  absl::Status TryReserve(uint32_t prompt_tokens, uint32_t prompt_blocks, uint32_t choices) {
    return table_->Reserve(prompt_tokens, prompt_blocks, choices, [](absl::StatusOr<CommittedHandoff>) {}).status();
  }
  static WriteStamp StampOf(const Lease& lease) { return {lease.key.lease, lease.key.generation}; }
  // A copy into one of the prompt's blocks that has begun and not ended.
  bool Copies(const Lease& lease, size_t block) {
    return table_->Admit(StampOf(lease), lease.prompt_blocks[block] * kBlockBytes, kBlockBytes);
  }
  bool Admit(const Lease& lease, BlockId first, uint64_t blocks = 1) {
    const WriteStamp stamp = StampOf(lease);
    const bool admitted = table_->Admit(stamp, first * kBlockBytes, blocks * kBlockBytes);
    if (admitted) table_->Written(stamp);
    return admitted;
  }

  FakeClock clock_;
  BlockPool pool_;
  std::unique_ptr<LeaseTable> table_;
  std::vector<absl::StatusOr<CommittedHandoff>> ends_;
};

// How a lease gets into a state, and what one event then does to its blocks, its request and its writer.
struct Transition {
  std::string name;
  enum class From { kLeased, kAttached, kVerifying, kCancelled, kExpired } from;
  enum class Event { kCancel, kExpire, kCommit, kFence, kRelayedFence, kSuspect, kLost, kGone } event;
  enum class Blocks { kFree, kLeased, kQuarantined, kOwned } blocks;
  absl::StatusCode end;  // of the request, by now; kUnknown: it goes on
  std::optional<LeaseAnswer> answer;
};
using From = Transition::From;
using Event = Transition::Event;
using InPool = Transition::Blocks;

class LeaseTransition : public LeaseTableTest, public ::testing::WithParamInterface<Transition> {};

TEST_P(LeaseTransition, MovesBlocksOnlyWhenTheWriterIsDone) {
  const Transition& transition = GetParam();
  const Lease lease = transition.from == From::kLeased ? Reserve() : Attached();
  if (transition.from == From::kVerifying) (void)table_->BeginCommit(kWriter, lease.key);
  if (transition.from == From::kCancelled) table_->Cancel(lease.key);
  if (transition.from == From::kExpired) Expire();

  std::optional<LeaseAnswer> answer;
  switch (transition.event) {
    case Event::kCancel:
      table_->Cancel(lease.key);
      break;
    case Event::kExpire:
      Expire();
      break;
    case Event::kCommit:
      answer = Commit(kWriter, lease.key).answer;
      break;
    case Event::kFence:
      answer = Fence(kWriter, lease.key).answer;
      break;
    case Event::kRelayedFence:
      answer = Fence(std::nullopt, lease.key).answer;
      break;
    case Event::kSuspect:
      table_->OnPeerEvent(kWriter, PeerEvent::kSuspect);
      break;
    case Event::kLost:
      table_->OnPeerEvent(kWriter, PeerEvent::kLost);
      break;
    case Event::kGone:
      table_->OnPeerEvent(kWriter, PeerEvent::kGone);
      break;
  }

  EXPECT_EQ(answer, transition.answer);
  const BlockCounts counts = pool_.counts();
  EXPECT_EQ(counts.leased, transition.blocks == InPool::kLeased ? 4u : 0u);
  EXPECT_EQ(counts.quarantined, transition.blocks == InPool::kQuarantined ? 4u : 0u);
  EXPECT_EQ(counts.owned, transition.blocks == InPool::kOwned ? 4u : 0u);
  EXPECT_EQ(counts.total(), 32u);
  RunEnds();
  if (transition.end == absl::StatusCode::kUnknown) {
    EXPECT_THAT(ends_, IsEmpty());
  } else {
    EXPECT_EQ(End(), transition.end);
  }
}

using Code = absl::StatusCode;
constexpr std::nullopt_t kNoAnswer = std::nullopt;
INSTANTIATE_TEST_SUITE_P(
    All, LeaseTransition,
    ::testing::Values(
        // Nobody was ever told to write: free at once.
        Transition{"LeasedCancel", From::kLeased, Event::kCancel, InPool::kFree, Code::kCancelled, kNoAnswer},
        Transition{"LeasedExpire", From::kLeased, Event::kExpire, InPool::kFree, Code::kDeadlineExceeded, kNoAnswer},
        Transition{"LeasedFence", From::kLeased, Event::kFence, InPool::kFree, Code::kAborted, LeaseAnswer::kDiscarded},
        Transition{"LeasedCommit", From::kLeased, Event::kCommit, InPool::kLeased, Code::kUnknown,
                   LeaseAnswer::kRefused},
        Transition{"LeasedGone", From::kLeased, Event::kGone, InPool::kLeased, Code::kUnknown, kNoAnswer},
        // A writer may write.
        Transition{"AttachedCancel", From::kAttached, Event::kCancel, InPool::kLeased, Code::kCancelled, kNoAnswer},
        Transition{"AttachedExpire", From::kAttached, Event::kExpire, InPool::kQuarantined, Code::kDeadlineExceeded,
                   kNoAnswer},
        Transition{"AttachedCommit", From::kAttached, Event::kCommit, InPool::kOwned, Code::kOk,
                   LeaseAnswer::kCommitted},
        Transition{"AttachedFence", From::kAttached, Event::kFence, InPool::kFree, Code::kAborted,
                   LeaseAnswer::kDiscarded},
        Transition{"AttachedRelayedFence", From::kAttached, Event::kRelayedFence, InPool::kFree, Code::kAborted,
                   LeaseAnswer::kDiscarded},
        Transition{"AttachedSuspect", From::kAttached, Event::kSuspect, InPool::kQuarantined, Code::kUnavailable,
                   kNoAnswer},
        Transition{"AttachedLost", From::kAttached, Event::kLost, InPool::kQuarantined, Code::kUnavailable, kNoAnswer},
        Transition{"AttachedGone", From::kAttached, Event::kGone, InPool::kFree, Code::kUnavailable, kNoAnswer},
        // The last write is flushed: neither time nor the writer's death matters.
        Transition{"VerifyingExpire", From::kVerifying, Event::kExpire, InPool::kLeased, Code::kUnknown, kNoAnswer},
        Transition{"VerifyingGone", From::kVerifying, Event::kGone, InPool::kLeased, Code::kUnknown, kNoAnswer},
        Transition{"VerifyingCancel", From::kVerifying, Event::kCancel, InPool::kLeased, Code::kCancelled, kNoAnswer},
        Transition{"VerifyingFence", From::kVerifying, Event::kFence, InPool::kLeased, Code::kAborted,
                   LeaseAnswer::kDiscarded},
        // The request is over, the writer not.
        Transition{"CancelledExpire", From::kCancelled, Event::kExpire, InPool::kQuarantined, Code::kCancelled,
                   kNoAnswer},
        Transition{"CancelledCommit", From::kCancelled, Event::kCommit, InPool::kFree, Code::kCancelled,
                   LeaseAnswer::kDiscarded},
        Transition{"CancelledFence", From::kCancelled, Event::kFence, InPool::kFree, Code::kCancelled,
                   LeaseAnswer::kDiscarded},
        Transition{"CancelledSuspect", From::kCancelled, Event::kSuspect, InPool::kQuarantined, Code::kCancelled,
                   kNoAnswer},
        Transition{"CancelledGone", From::kCancelled, Event::kGone, InPool::kFree, Code::kCancelled, kNoAnswer},
        Transition{"ExpiredCancel", From::kExpired, Event::kCancel, InPool::kQuarantined, Code::kDeadlineExceeded,
                   kNoAnswer},
        Transition{"ExpiredCommit", From::kExpired, Event::kCommit, InPool::kFree, Code::kDeadlineExceeded,
                   LeaseAnswer::kDiscarded},
        Transition{"ExpiredFence", From::kExpired, Event::kFence, InPool::kFree, Code::kDeadlineExceeded,
                   LeaseAnswer::kDiscarded},
        Transition{"ExpiredLost", From::kExpired, Event::kLost, InPool::kQuarantined, Code::kDeadlineExceeded,
                   kNoAnswer},
        Transition{"ExpiredGone", From::kExpired, Event::kGone, InPool::kFree, Code::kDeadlineExceeded, kNoAnswer}),
    [](const auto& info) { return info.param.name; });

TEST_F(LeaseTableTest, TimeRunsFromTheFirstRenewal) {
  auto lease = table_->Reserve(40, 3, 1, [](absl::StatusOr<CommittedHandoff>) {});
  Expire();
  EXPECT_EQ(table_->open_leases(), 1u);
  ASSERT_TRUE(table_->Renew(lease->key).ok());
  Expire();
  EXPECT_EQ(table_->open_leases(), 0u);
}

TEST_F(LeaseTableTest, AWithdrawnLeaseGivesItsBlocksBackAndEndsForNobody) {
  const auto lease = table_->Reserve(40, 3, 13, [this](absl::StatusOr<CommittedHandoff> end) { ends_.push_back(end); });
  ASSERT_TRUE(lease.ok()) << lease.status();
  table_->Withdraw(lease->key);
  RunEnds();
  EXPECT_THAT(ends_, IsEmpty());
  EXPECT_EQ(table_->open_leases(), 0u);
  EXPECT_EQ(pool_.counts().free, 32u);
  EXPECT_FALSE(Admit(*lease, lease->prompt_blocks[0]));
  EXPECT_EQ(table_->Attach(kWriter, lease->key).answer, LeaseAnswer::kDiscarded);
  EXPECT_EQ(table_->Renew(lease->key).code(), absl::StatusCode::kNotFound);
  table_->Withdraw(lease->key);
  EXPECT_EQ(pool_.counts().free, 32u) << "once";
  Reserve();  // the share of leased blocks, which it had all of, is free as well
}

TEST_F(LeaseTableTest, RenewedLeaseDoesNotExpire) {
  const Lease lease = Attached();
  for (int i = 0; i < 5; ++i) {
    clock_.Advance(std::chrono::seconds(9));
    EXPECT_TRUE(table_->Renew(lease.key).ok());
    table_->Reap();
  }
  EXPECT_EQ(table_->Find(lease.key.lease)->state, LeaseState::kAttached);
}

TEST_F(LeaseTableTest, LeaseThatIsOverCannotBeRenewed) {
  const Lease cancelled = Attached();
  table_->Cancel(cancelled.key);
  EXPECT_EQ(table_->Renew(cancelled.key).code(), absl::StatusCode::kNotFound);
  const Lease closed = Reserve();
  table_->Cancel(closed.key);
  EXPECT_EQ(table_->Renew(closed.key).code(), absl::StatusCode::kNotFound);
}

TEST_F(LeaseTableTest, AttachToADiscardedLeaseIsAnsweredDiscarded) {
  const Lease lease = Reserve();
  Expire();
  EXPECT_EQ(table_->Attach(kWriter, lease.key).answer, LeaseAnswer::kDiscarded);
}

TEST_F(LeaseTableTest, AttachTwiceByTheSameWriterIsFine) {
  const Lease lease = Attached();
  EXPECT_EQ(table_->Attach(kWriter, lease.key).answer, LeaseAnswer::kAttached);
}

TEST_F(LeaseTableTest, PD_06_AnotherWriterCannotAttachCommitOrFence) {
  const Lease lease = Attached();
  EXPECT_EQ(table_->Attach(kStranger, lease.key).answer, LeaseAnswer::kRefused);
  EXPECT_EQ(Commit(kStranger, lease.key).answer, LeaseAnswer::kRefused);
  EXPECT_EQ(Fence(kStranger, lease.key).answer, LeaseAnswer::kRefused);
  EXPECT_EQ(pool_.counts().leased, 4u);
  EXPECT_EQ(table_->counts().refused, 3u);
  EXPECT_EQ(Commit(kWriter, lease.key).answer, LeaseAnswer::kCommitted);
  EXPECT_EQ(Commit(kStranger, lease.key).answer, LeaseAnswer::kRefused);
}

TEST_F(LeaseTableTest, PD_06_WrongSecretOrGenerationChangesNothing) {
  const Lease lease = Attached();
  for (int field = 0; field < 3; ++field) {
    LeaseKey key = lease.key;
    if (field == 0) ++key.secret;
    if (field == 1) ++key.generation;
    if (field == 2) ++key.lease.value;
    EXPECT_EQ(table_->Attach(kWriter, key).answer, LeaseAnswer::kRefused);
    EXPECT_EQ(Commit(kWriter, key).answer, LeaseAnswer::kRefused);
    EXPECT_EQ(Fence(kWriter, key).answer, LeaseAnswer::kRefused);
    EXPECT_EQ(Fence(std::nullopt, key).answer, LeaseAnswer::kRefused);
    EXPECT_EQ(table_->Renew(key).code(), absl::StatusCode::kNotFound);
    table_->Cancel(key);
  }
  RunEnds();
  EXPECT_THAT(ends_, IsEmpty());
  EXPECT_EQ(table_->Find(lease.key.lease)->state, LeaseState::kAttached);
}

// A restarted decode worker counts its leases from the start again.
TEST_F(LeaseTableTest, PD_07_LeaseOfAnEarlierProcessIsRefused) {
  const Lease old = Attached();
  LeaseTable restarted(LeaseLimits{.max_leased_blocks = 16, .block_bytes = kBlockBytes}, &pool_, &clock_);
  const auto lease = restarted.Reserve(40, 3, 1, [](absl::StatusOr<CommittedHandoff>) {});
  ASSERT_EQ(lease->key.lease, old.key.lease);
  EXPECT_EQ(restarted.Attach(kWriter, old.key).answer, LeaseAnswer::kRefused);
  EXPECT_FALSE(restarted.Admit({old.key.lease, old.key.generation}, old.prompt_blocks[0] * kBlockBytes, kBlockBytes));
}

TEST_F(LeaseTableTest, PD_06_DuplicateCommitGetsTheSameAnswerAndRunsNothing) {
  const Lease lease = Attached();
  EXPECT_EQ(Commit(kWriter, lease.key).answer, LeaseAnswer::kCommitted);
  EXPECT_EQ(Commit(kWriter, lease.key).answer, LeaseAnswer::kCommitted);
  EXPECT_EQ(Fence(kWriter, lease.key).answer, LeaseAnswer::kCommitted);
  EXPECT_EQ(End(), absl::StatusCode::kOk);
  EXPECT_EQ(table_->counts().committed, 1u);
}

TEST_F(LeaseTableTest, CommitWhileVerifyingWaitsForTheFirst) {
  const Lease lease = Attached();
  ASSERT_EQ(table_->BeginCommit(kWriter, lease.key).kind, LeaseTable::CommitStart::Kind::kVerify);
  EXPECT_EQ(table_->BeginCommit(kWriter, lease.key).kind, LeaseTable::CommitStart::Kind::kAlreadyVerifying);
}

TEST_F(LeaseTableTest, PD_05_RefusedCommitGivesTheBlocksBackAndKeepsItsAnswer) {
  const Lease lease = Attached();
  const AnswerMessage refused = Commit(kWriter, lease.key, DataLoss("checksum of leased block 1 differs"));
  EXPECT_EQ(refused.answer, LeaseAnswer::kRefused);
  EXPECT_THAT(refused.reason, HasSubstr("block 1"));
  EXPECT_EQ(pool_.counts().free, 32u);
  EXPECT_EQ(End(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Commit(kWriter, lease.key).answer, LeaseAnswer::kRefused);
  EXPECT_EQ(table_->counts().checksum_mismatches, 1u);
}

TEST_F(LeaseTableTest, CancelledWhileVerifyingIsDiscardedThoughItVerified) {
  const Lease lease = Attached();
  (void)table_->BeginCommit(kWriter, lease.key);
  table_->Cancel(lease.key);
  EXPECT_EQ(table_->FinishCommit(lease.key.lease, absl::OkStatus(), {}).answer, LeaseAnswer::kDiscarded);
  EXPECT_EQ(pool_.counts().free, 32u);
  EXPECT_EQ(End(), absl::StatusCode::kCancelled);
}

TEST_F(LeaseTableTest, PD_03_LateWriteAfterAbortStaysQuarantined) {
  const Lease lease = Attached();
  table_->Cancel(lease.key);
  Expire();
  // Somebody who wants the whole pool does not get these blocks, however long the writer is silent.
  clock_.Advance(std::chrono::hours(1));
  table_->Reap();
  EXPECT_EQ(pool_.counts().quarantined, 4u);
  EXPECT_EQ(pool_.Allocate(29).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Fence(kWriter, lease.key).answer, LeaseAnswer::kDiscarded);
  EXPECT_TRUE(pool_.Allocate(32).ok());
}

TEST_F(LeaseTableTest, PD_02_PausedWriterThatWakesIsToldDiscarded) {
  const Lease lease = Attached();
  table_->OnPeerEvent(kWriter, PeerEvent::kSuspect);
  table_->OnPeerEvent(kWriter, PeerEvent::kRecovered);
  EXPECT_EQ(pool_.counts().quarantined, 4u);
  EXPECT_FALSE(Admit(lease, lease.prompt_blocks[0]));
  EXPECT_EQ(Commit(kWriter, lease.key).answer, LeaseAnswer::kDiscarded);
  EXPECT_EQ(pool_.counts().free, 32u);
  EXPECT_EQ(End(), absl::StatusCode::kUnavailable);
}

TEST_F(LeaseTableTest, DeathOfOneWriterLeavesTheOthersAlone) {
  const Lease lease = Attached();
  table_->OnPeerEvent(kStranger, PeerEvent::kGone);
  EXPECT_EQ(table_->Find(lease.key.lease)->state, LeaseState::kAttached);
}

TEST_F(LeaseTableTest, GateAdmitsOnlyTheLeasedPromptBlocks) {
  const Lease lease = Reserve();
  const BlockId first = lease.prompt_blocks.front();  // 3 adjacent blocks, then the growth block
  ASSERT_EQ(lease.prompt_blocks[2], first + 2);
  EXPECT_FALSE(Admit(lease, first)) << "nobody is attached";
  ASSERT_EQ(table_->Attach(kWriter, lease.key).answer, LeaseAnswer::kAttached);
  EXPECT_TRUE(Admit(lease, first));
  EXPECT_TRUE(Admit(lease, first, 3));
  EXPECT_FALSE(Admit(lease, first, 4)) << "the growth block is not the writer's";
  EXPECT_FALSE(Admit(lease, first + 3));
  const WriteStamp stamp = StampOf(lease);
  EXPECT_FALSE(table_->Admit(stamp, first * kBlockBytes, 0));
  EXPECT_FALSE(table_->Admit(stamp, UINT64_MAX, kBlockBytes));
  EXPECT_FALSE(table_->Admit(stamp, first * kBlockBytes, UINT64_MAX));
  EXPECT_FALSE(table_->Admit({lease.key.lease, lease.key.generation + 1}, first * kBlockBytes, 1));
  EXPECT_FALSE(table_->Admit({LeaseId{99}, lease.key.generation}, first * kBlockBytes, 1));
  EXPECT_TRUE(table_->Admit(stamp, first * kBlockBytes + 1000, 100)) << "a piece that crosses two leased blocks";
  EXPECT_EQ(table_->counts().late_writes_refused, 8u);
}

// Leased blocks [0 1] and [4] with somebody else's 2 and 3 between.
TEST_F(LeaseTableTest, GateRefusesARunAcrossForeignBlocks) {
  auto owned = pool_.Allocate(4).value();
  pool_.Release(std::vector<BlockId>{owned[0], owned[1]});
  const Lease lease = Attached();
  ASSERT_EQ(lease.prompt_blocks, (std::vector<BlockId>{0, 1, 4}));
  EXPECT_TRUE(Admit(lease, 0, 2));
  EXPECT_FALSE(Admit(lease, 0, 3));
  EXPECT_FALSE(Admit(lease, 1, 4));
  EXPECT_TRUE(Admit(lease, 4));
}

TEST_F(LeaseTableTest, PD_03_GateRefusesWritesOfACancelledLease) {
  const Lease lease = Attached();
  table_->Cancel(lease.key);
  EXPECT_FALSE(Admit(lease, lease.prompt_blocks[0]));
}

TEST_F(LeaseTableTest, BlocksStayTakenUntilAnAdmittedCopyEnds) {
  const Lease lease = Attached();
  ASSERT_TRUE(Copies(lease, 0) && Copies(lease, 1));
  table_->OnPeerEvent(kWriter, PeerEvent::kGone);
  EXPECT_EQ(pool_.counts().leased, 4u);
  table_->Written(StampOf(lease));
  EXPECT_EQ(pool_.counts().leased, 4u);
  table_->Written(StampOf(lease));
  EXPECT_EQ(pool_.counts().free, 32u);
}

TEST_F(LeaseTableTest, CommitDuringACopyIsRefused) {
  const Lease lease = Attached();
  ASSERT_TRUE(Copies(lease, 0));
  EXPECT_EQ(Commit(kWriter, lease.key).answer, LeaseAnswer::kRefused);
  EXPECT_EQ(pool_.counts().leased, 4u);
  table_->Written(StampOf(lease));
  EXPECT_EQ(pool_.counts().free, 32u);
  EXPECT_EQ(End(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LeaseTableTest, LeasedShareIsCappedWithTheNumbers) {
  for (int i = 0; i < 4; ++i) Reserve();
  const absl::Status refused = TryReserve(1, 1, 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusMessage(refused), HasSubstr("needs 2 KV blocks, 16 of the 16"));
  EXPECT_EQ(pool_.counts().leased, 16u);
}

TEST_F(LeaseTableTest, ALeaseLargerThanTheShareIsRefusedForGood) {
  const absl::Status refused = TryReserve(256, 16, 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusMessage(refused), HasSubstr("needs 17 KV blocks, 16 may be leased at most"));
  EXPECT_EQ(table_->open_leases(), 0u);
}

TEST_F(LeaseTableTest, CommittedBlocksNoLongerCountAsLeased) {
  for (int i = 0; i < 6; ++i) {
    const Lease lease = Attached();
    EXPECT_EQ(Commit(kWriter, lease.key).answer, LeaseAnswer::kCommitted);
  }
  EXPECT_EQ(pool_.counts().owned, 24u);
}

TEST_F(LeaseTableTest, FullPoolRefusesAndKeepsNothing) {
  auto owned = pool_.Allocate(30).value();
  const absl::Status refused = TryReserve(40, 3, 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(table_->open_leases(), 0u);
  EXPECT_EQ(pool_.counts().leased, 0u);
}

TEST_F(LeaseTableTest, QuarantineBeyondItsShareAsksForARestart) {
  const std::vector<Lease> leases = {Attached(), Attached(), Attached()};
  clock_.Advance(std::chrono::seconds(11));
  table_->OnPeerEvent(kWriter, PeerEvent::kSuspect);
  EXPECT_EQ(pool_.counts().quarantined, 12u);
  EXPECT_TRUE(table_->must_restart());
  const absl::Status refused = TryReserve(1, 1, 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Fence(std::nullopt, leases[0].key).answer, LeaseAnswer::kDiscarded);
  EXPECT_FALSE(table_->must_restart());
}

TEST_F(LeaseTableTest, TombstonesAreBoundedByTime) {
  const Lease lease = Attached();
  EXPECT_EQ(Commit(kWriter, lease.key).answer, LeaseAnswer::kCommitted);
  clock_.Advance(std::chrono::seconds(61));
  table_->Reap();
  EXPECT_EQ(table_->tombstones(), 0u);
  EXPECT_EQ(Commit(kWriter, lease.key).answer, LeaseAnswer::kRefused);
}

class SmallTombstoneTest : public LeaseTableTest {
 protected:
  SmallTombstoneTest() : LeaseTableTest(LeaseLimits{.max_tombstones = 2}) {}
};

TEST_F(SmallTombstoneTest, TombstonesAreBoundedByCountOldestFirst) {
  std::vector<Lease> leases;
  for (int i = 0; i < 3; ++i) {
    leases.push_back(Reserve());
    table_->Cancel(leases.back().key);
  }
  EXPECT_EQ(table_->tombstones(), 2u);
  EXPECT_EQ(table_->Attach(kWriter, leases[0].key).answer, LeaseAnswer::kRefused);
  EXPECT_EQ(table_->Attach(kWriter, leases[2].key).answer, LeaseAnswer::kDiscarded);
}

TEST_F(LeaseTableTest, EndAllFreesWhatNobodyCanWriteAndQuarantinesTheRest) {
  Reserve();
  Attached();
  table_->EndAll(Unavailable("shutting down"));
  RunEnds();
  ASSERT_EQ(ends_.size(), 2u);
  EXPECT_EQ(ends_[0].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(pool_.counts().quarantined, 4u);
  EXPECT_EQ(pool_.counts().leased, 0u);
}

TEST_F(LeaseTableTest, PD_01_AbandonedReservationsNeverUseThePoolUp) {
  for (int i = 0; i < 200; ++i) {
    const Lease lease = Reserve();
    i % 2 == 0 ? table_->Cancel(lease.key) : Expire();
  }
  EXPECT_EQ(pool_.counts().free, 32u);
  EXPECT_EQ(table_->counts().cancelled, 100u);
  EXPECT_EQ(table_->counts().expired, 100u);
}

}  // namespace
}  // namespace baton
