#include <algorithm>

#include "common/kv/key_order.h"
#include "tests/fakes/no_threads.h"
#include "tests/unit/handoff/handoff_rig.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Handoff : public ::testing::TestWithParam<bool> {  // message_puts
 protected:
  const std::shared_ptr<LocalNetwork> network_ = std::make_shared<LocalNetwork>();
  DecodeEnd decode_{network_, GetParam()};
  PrefillEnd prefill_{network_, GetParam()};

  // A prompt that is pushed whole and committed with one token.
  std::shared_ptr<OutgoingHandoff> Send(const LeaseOffer& offer, uint32_t tokens) {
    auto handoff = prefill_.Begin(offer);
    handoff->PushBlocks(tokens, BlockRange(0, (tokens + 15) / 16));
    handoff->Commit(tokens, {{0, 1, false}});
    return handoff;
  }

  // A transfer that stands still between its first put and the flush, until the valve opens.
  struct Transfer {
    LeaseOffer offer;
    std::shared_ptr<OutgoingHandoff> handoff;
  };
  // `pushed` tokens of a prompt of `tokens`.
  Transfer HoldPush(uint32_t tokens, uint32_t pushed) {
    prefill_.transport.valve().Hold();
    Transfer transfer{decode_.Reserve(tokens).value(), nullptr};
    transfer.handoff = prefill_.Begin(transfer.offer);
    transfer.handoff->PushBlocks(pushed, BlockRange(0, (tokens + 15) / 16));
    EXPECT_TRUE(prefill_.transport.valve().WaitForHeld(1));
    return transfer;
  }
  // All of them, with the commit behind.
  Transfer HoldSend(uint32_t tokens) {
    Transfer transfer = HoldPush(tokens, tokens);
    transfer.handoff->Commit(tokens, {{0, 1, false}});
    return transfer;
  }
};
INSTANTIATE_TEST_SUITE_P(Local, Handoff, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "MessagePuts" : "OneSided"; });

TEST_P(Handoff, SeveralChunksArriveAndCommit) {
  const LeaseOffer offer = decode_.Reserve(40, 0, 2).value();
  const auto handoff = prefill_.Begin(offer);
  const auto table = Blocks({7, 3, 9});
  handoff->PushBlocks(10, table);
  handoff->PushBlocks(20, table);
  handoff->PushBlocks(33, table);
  handoff->PushBlocks(40, table);
  handoff->Commit(40, {{0, 11, false}, {1, 12, true}});

  const HandoffResult result = prefill_.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kCommitted) << result.reason;
  EXPECT_EQ(result.blocks, 3u);
  EXPECT_EQ(result.bytes, 3 * kTinyLayout.BytesPerBlock());
  EXPECT_EQ(result.lane, "local");
  ASSERT_EQ(result.chunks.size(), 3u);
  for (const auto& chunk : result.chunks) {
    EXPECT_EQ(chunk.blocks, 1u);
    EXPECT_GE(chunk.put_flushed, chunk.put_started);
  }
  const auto committed = decode_.WaitForEnd();
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_THAT(committed->first_tokens, ElementsAre(FirstToken{0, 11, false}, FirstToken{1, 12, true}));
  ASSERT_EQ(committed->blocks.size(), 5u);
  ExpectSameKv(prefill_, 7, decode_, committed->blocks[0]);
  ExpectSameKv(prefill_, 3, decode_, committed->blocks[1]);
  ExpectSameKv(prefill_, 9, decode_, committed->blocks[2], 8);
  EXPECT_EQ(decode_.pool.counts().owned, 5u);
  decode_.pool.Release(committed->blocks);
  EXPECT_EQ(decode_.pool.counts().free, 64u);
  EXPECT_EQ(decode_.receiver->counts().committed, 1u);
}

TEST_P(Handoff, PrefixPinnedOnTheTargetIsNotSent) {
  const LeaseOffer offer = decode_.Reserve(64, 2).value();
  EXPECT_EQ(offer.first_block, 2u);
  ASSERT_EQ(offer.blocks.size(), 2u);
  const auto handoff = prefill_.Begin(offer);
  const auto table = Blocks({20, 21, 22, 23});
  handoff->PushBlocks(32, table);
  handoff->PushBlocks(64, table);
  handoff->Commit(64, {{0, 1, false}});
  const HandoffResult result = prefill_.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kCommitted) << result.reason;
  EXPECT_EQ(result.blocks, 2u);
  EXPECT_EQ(result.chunks.size(), 1u) << "the first push moved nothing";
  const auto committed = decode_.WaitForEnd();
  ASSERT_TRUE(committed.ok());
  ExpectSameKv(prefill_, 22, decode_, committed->blocks[0]);
  ExpectSameKv(prefill_, 23, decode_, committed->blocks[1]);
}

TEST_P(Handoff, WithoutAThreadForItsTargetFailsAlone) {
  const LeaseOffer offer = decode_.Reserve(16).value();
  {
    const NoThreads none;
    prefill_.Begin(offer);
    const HandoffResult result = prefill_.WaitForResult();
    EXPECT_EQ(result.outcome, HandoffOutcome::kFailed);
    EXPECT_THAT(result.reason, HasSubstr("a thread cannot be started"));
  }
  const auto handoff = prefill_.Begin(offer);
  handoff->PushBlocks(16, Blocks({5}));
  handoff->Commit(16, {{0, 1, false}});
  EXPECT_EQ(prefill_.WaitForResult(2).outcome, HandoffOutcome::kCommitted);
}

TEST_P(Handoff, PD_09_LengthsAroundBlockBorders) {
  size_t count = 0;
  for (const uint32_t tokens : {1u, 15u, 16u, 17u, 31u, 32u, 33u}) {
    const LeaseOffer offer = decode_.Reserve(tokens).value();
    const uint32_t blocks = (tokens + 15) / 16;
    ASSERT_EQ(offer.blocks.size(), blocks);
    const auto handoff = prefill_.Begin(offer);
    const auto table = BlockRange(30, blocks);
    handoff->PushBlocks(tokens, table);
    handoff->Commit(tokens, {{0, 9, false}});
    ++count;
    EXPECT_EQ(prefill_.WaitForResult(count).outcome, HandoffOutcome::kCommitted) << tokens << " tokens";
    const auto committed = decode_.WaitForEnd(count);
    ASSERT_TRUE(committed.ok());
    ASSERT_EQ(committed->blocks.size(), blocks + 1) << "one growth block for the choice";
    ExpectSameKv(prefill_, 30 + blocks - 1, decode_, committed->blocks[blocks - 1], tokens - (blocks - 1) * 16);
    for (const std::byte byte : decode_.Block(committed->blocks.back())) ASSERT_EQ(byte, std::byte{0});
  }
}

TEST_P(Handoff, PD_09_APinnedPrefixNeverCoversTheLastToken) {
  EXPECT_EQ(decode_.Reserve(32, 2).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(decode_.Reserve(32, 1).ok());
  EXPECT_TRUE(decode_.Reserve(33, 2).ok());
  EXPECT_EQ(decode_.Reserve(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decode_.Reserve(5, 0, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(Handoff, GrowthBlocksAreZeroedEvenWhenTheyHeldOldKv) {
  FillRandom(decode_.memory, 3);
  const LeaseOffer offer = decode_.Reserve(16, 0, 3).value();
  const auto handoff = prefill_.Begin(offer);
  handoff->PushBlocks(16, Blocks({0}));
  handoff->Commit(16, {{0, 1, false}, {1, 2, false}, {2, 3, false}});
  const auto committed = decode_.WaitForEnd();
  ASSERT_TRUE(committed.ok());
  for (size_t i = 1; i < 4; ++i) {
    for (const std::byte byte : decode_.Block(committed->blocks[i])) ASSERT_EQ(byte, std::byte{0});
  }
}

TEST_P(Handoff, ManyHandoffsShareOneConnection) {
  for (int round = 0; round < 20; ++round) {
    const LeaseOffer offer = decode_.Reserve(20).value();
    const auto handoff = prefill_.Begin(offer);
    handoff->PushBlocks(20, Blocks({1, 2}));
    handoff->Commit(20, {{0, 4, false}});
    const auto committed = decode_.WaitForEnd(round + 1);
    ASSERT_TRUE(committed.ok()) << committed.status();
    decode_.pool.Release(committed->blocks);
  }
  ASSERT_TRUE(prefill_.results.WaitForCount(20));
  EXPECT_EQ(decode_.pool.counts().free, 64u);
}

TEST_P(Handoff, AbortBeforeAnythingWasPushedFreesTheLease) {
  const LeaseOffer offer = decode_.Reserve(40).value();
  prefill_.Begin(offer)->Abort("client left");
  EXPECT_EQ(prefill_.WaitForResult().outcome, HandoffOutcome::kFenced);
  decode_.receiver->Cancel(offer.key);
  EXPECT_TRUE(Eventually([&] { return decode_.pool.counts().free == 64; }));
  EXPECT_FALSE(decode_.WaitForEnd().ok());
}

TEST_P(Handoff, HandleDroppedWithoutACommitFences) {
  prefill_.transport.valve().Hold();
  {
    const auto handoff = prefill_.Begin(decode_.Reserve(40).value());
    handoff->PushBlocks(16, Blocks({0, 1, 2}));
    ASSERT_TRUE(prefill_.transport.valve().WaitForHeld(1));
  }
  prefill_.transport.valve().Release();
  const HandoffResult result = prefill_.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kFenced);
  EXPECT_TRUE(result.fence_delivered);
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(decode_.pool.counts().free, 64u);
}

// The transfer hangs between put and flush; the request is cancelled on the decode side meanwhile.
TEST_P(Handoff, PD_03_AbortInMidTransferKeepsBothSidesBlocksUntilTheFlush) {
  const auto [offer, handoff] = HoldPush(40, 32);
  decode_.receiver->Cancel(offer.key);
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kCancelled);
  handoff->Abort("cancelled");

  EXPECT_EQ(decode_.pool.counts().leased, 4u) << "the writer may still write";
  EXPECT_THAT(prefill_.results.values(), ::testing::IsEmpty()) << "the sources are still read";
  prefill_.transport.valve().Release();
  const HandoffResult result = prefill_.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kFenced);
  EXPECT_TRUE(result.fence_delivered);
  EXPECT_EQ(decode_.pool.counts().free, 64u);
  EXPECT_EQ(decode_.receiver->open_leases(), 0u);
}

TEST_P(Handoff, CommitAfterCancelIsDiscardedAndCountsAsTheFence) {
  const auto [offer, handoff] = HoldSend(20);
  decode_.receiver->Cancel(offer.key);
  prefill_.transport.valve().Release();
  EXPECT_EQ(prefill_.WaitForResult().outcome, HandoffOutcome::kDiscarded);
  EXPECT_EQ(decode_.pool.counts().free, 64u);
  EXPECT_EQ(decode_.receiver->counts().discarded, 1u);
}

TEST_P(Handoff, PD_02_LateCommitAfterExpiryIsDiscarded) {
  const auto [offer, handoff] = HoldSend(20);
  decode_.clock.Advance(std::chrono::seconds(11));
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(decode_.pool.counts().quarantined, 3u);
  EXPECT_EQ(decode_.receiver->Renew(offer.key).code(), absl::StatusCode::kNotFound);
  prefill_.transport.valve().Release();
  EXPECT_EQ(prefill_.WaitForResult().outcome, HandoffOutcome::kDiscarded);
  EXPECT_EQ(decode_.pool.counts().free, 64u);
  EXPECT_EQ(decode_.ends.values().size(), 1u);
}

TEST_P(Handoff, UnattachedLeaseExpiresToFree) {
  ASSERT_TRUE(decode_.Reserve(20).ok());
  decode_.clock.Advance(std::chrono::seconds(11));
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(decode_.pool.counts().free, 64u);
}

TEST_P(Handoff, PD_05_CorruptedBlockIsRefusedAndNothingRuns) {
  const auto [offer, handoff] = HoldSend(40);
  const uint64_t at = offer.blocks[1] * kTinyLayout.BytesPerBlock() + 500;
  decode_.memory[at] ^= std::byte{1};
  prefill_.transport.valve().Release();

  const HandoffResult result = prefill_.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kRefused);
  EXPECT_THAT(result.reason, HasSubstr("checksum of leased block 1"));
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(decode_.pool.counts().free, 64u);
  EXPECT_EQ(decode_.receiver->counts().checksum_mismatches, 1u);
}

TEST_P(Handoff, PD_05_IncompleteKvIsNeverCommitted) {
  const struct {
    uint32_t pushed, committed;
    std::vector<BlockId> table;
    std::string reason;
  } cases[] = {
      {32, 40, {0, 1, 2}, "KV of 32 was pushed"},
      {60, 60, {0, 1, 2, 3}, "the lease in block 3"},
      {40, 40, {0, 1}, "the block table has 2"},
      {40, 40, {0, 1, 64}, "is block 64 of a pool of 64"},
  };
  size_t count = 0;
  for (const auto& bad : cases) {
    const LeaseOffer offer = decode_.Reserve(40).value();
    const auto handoff = prefill_.Begin(offer);
    handoff->PushBlocks(bad.pushed, bad.table);
    handoff->Commit(bad.committed, {{0, 1, false}});
    const HandoffResult result = prefill_.WaitForResult(++count);
    EXPECT_EQ(result.outcome, HandoffOutcome::kFailed);
    EXPECT_TRUE(result.fence_delivered);
    EXPECT_THAT(result.reason, HasSubstr(bad.reason));
    EXPECT_EQ(decode_.WaitForEnd(count).status().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(decode_.pool.counts().free, 64u);
  }
}

TEST_P(Handoff, PD_05_CommitWithTooFewFirstTokensIsRefused) {
  const LeaseOffer offer = decode_.Reserve(16, 0, 2).value();
  const auto handoff = Send(offer, 16);
  const HandoffResult result = prefill_.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kRefused);
  EXPECT_THAT(result.reason, HasSubstr("1 first tokens, the lease has 2 choices"));
  EXPECT_EQ(decode_.pool.counts().free, 64u);
}

TEST_P(Handoff, PD_06_OfferUsedTwiceRunsOnce) {
  const LeaseOffer offer = decode_.Reserve(16).value();
  const auto first = Send(offer, 16);
  EXPECT_EQ(prefill_.WaitForResult(1).outcome, HandoffOutcome::kCommitted);
  const auto committed = decode_.WaitForEnd();
  ASSERT_TRUE(committed.ok());
  const auto second = prefill_.Begin(offer);
  second->PushBlocks(16, Blocks({5}));
  second->Commit(16, {{0, 2, false}});
  EXPECT_NE(prefill_.WaitForResult(2).outcome, HandoffOutcome::kCommitted);
  ExpectSameKv(prefill_, 0, decode_, committed->blocks[0]);
  EXPECT_EQ(decode_.ends.values().size(), 1u);
}

TEST_P(Handoff, PD_06_ForgedOfferIsRefused) {
  LeaseOffer offer = decode_.Reserve(16).value();
  ++offer.key.secret;
  const auto handoff = Send(offer, 16);
  EXPECT_EQ(prefill_.WaitForResult().outcome, HandoffOutcome::kRefused);
  EXPECT_EQ(decode_.receiver->open_leases(), 1u);
}

// The offer names blocks that the lease does not hold: only where puts can be refused can the target keep them out.
TEST_P(Handoff, PD_06_OfferWithForeignBlocksNeverRuns) {
  LeaseOffer offer = decode_.Reserve(16).value();
  offer.blocks = {40};
  const auto handoff = Send(offer, 16);
  EXPECT_EQ(prefill_.WaitForResult().outcome, HandoffOutcome::kRefused);
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kDataLoss);
  if (GetParam()) {
    EXPECT_EQ(decode_.receiver->counts().late_writes_refused, 1u);
    EXPECT_EQ(decode_.Block(40)[0], std::byte{0});
  }
}

TEST_P(Handoff, OfferBeyondTheTargetsPoolFailsWithoutHarm) {
  LeaseOffer offer = decode_.Reserve(16).value();
  offer.blocks = {1u << 30};
  const auto handoff = prefill_.Begin(offer);
  handoff->PushBlocks(16, Blocks({0}));
  const HandoffResult result = prefill_.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kFailed);
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kAborted);
}

TEST_P(Handoff, SessionErrorFencesOverTheControlConnectionAndTheNextHandoffWorks) {
  const Transfer transfer = HoldPush(16, 16);
  prefill_.transport.valve().Fail(Unavailable("endpoint reset"));
  const HandoffResult failed = prefill_.WaitForResult(1);
  EXPECT_EQ(failed.outcome, HandoffOutcome::kFailed);
  EXPECT_TRUE(failed.fence_delivered);
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(decode_.pool.counts().free, 64u);

  const auto next = Send(decode_.Reserve(16).value(), 16);
  EXPECT_EQ(prefill_.WaitForResult(2).outcome, HandoffOutcome::kCommitted);
}

TEST_P(Handoff, RelayedFenceFreesTheBlocks) {
  const auto [offer, handoff] = HoldPush(16, 16);
  FenceMessage forged{offer.key, "relayed"};
  ++forged.key.secret;
  EXPECT_EQ(decode_.receiver->RelayFence(forged).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(decode_.receiver->RelayFence({offer.key, "relayed"}).ok());
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(decode_.pool.counts().free, 64u);
  prefill_.transport.valve().Release();
  handoff->Commit(16, {{0, 1, false}});
  EXPECT_EQ(prefill_.WaitForResult().outcome, HandoffOutcome::kDiscarded);
}

TEST_P(Handoff, PD_02_PrefillWorkerThatExitsGivesTheBlocksBack) {
  const auto [offer, handoff] = HoldPush(40, 32);
  prefill_.sender.reset();
  const HandoffResult result = prefill_.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kFailed);
  EXPECT_FALSE(result.fence_delivered);
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Eventually([&] { return decode_.pool.counts().free == 64; }));
  handoff->Commit(32, {});  // a handle may outlive its sender
}

TEST_P(Handoff, PD_07_DecodeWorkerThatExitsEndsItsHandoffs) {
  const Transfer transfer = HoldPush(40, 32);
  decode_.receiver.reset();
  const HandoffResult result = prefill_.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kFailed);
  EXPECT_TRUE(result.fence_delivered) << "nothing is owed to a process that is gone";
  EXPECT_EQ(decode_.WaitForEnd().status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(Handoff, PD_07_OfferOfARestartedDecodeWorkerFailsAndANewOneWorks) {
  const LeaseOffer old = decode_.Reserve(16).value();
  TargetDescriptor target = DecodeTargetDescriptor(old.target).value();
  decode_.receiver.reset();
  ReceiverOptions same_port;
  same_port.control_port = target.control_port;
  DecodeEnd restarted(network_, GetParam(), same_port);
  const auto stale = Send(old, 16);
  const HandoffResult result = prefill_.WaitForResult(1);
  EXPECT_EQ(result.outcome, HandoffOutcome::kFailed);
  EXPECT_THAT(result.reason, HasSubstr("restarted"));

  const auto fresh = Send(restarted.Reserve(16).value(), 16);
  EXPECT_EQ(prefill_.WaitForResult(2).outcome, HandoffOutcome::kCommitted);
}

TEST_P(Handoff, PD_08_OtherNumericsOrLayoutIsRefusedByName) {
  DecodeEnd other_numerics(network_, GetParam(), {}, 64, NumericsHash{78});
  prefill_.Begin(other_numerics.Reserve(16).value());
  HandoffResult result = prefill_.WaitForResult(1);
  EXPECT_EQ(result.outcome, HandoffOutcome::kRefused);
  EXPECT_THAT(result.reason, HasSubstr("numerics hash"));

  KvLayout wider = kTinyLayout;
  wider.block_size = 32;
  DecodeEnd other_layout(network_, GetParam(), {}, 64, kNumerics, wider);
  prefill_.Begin(other_layout.Reserve(16).value());
  result = prefill_.WaitForResult(2);
  EXPECT_EQ(result.outcome, HandoffOutcome::kRefused);
  EXPECT_THAT(result.reason, HasSubstr("layout hash"));
}

// Engines of other numerics may keep keys in another order: the writer gives them in the target's.
TEST_P(Handoff, PD_08_OtherNumericsPairOnlyWhereBothSidesAllowThem) {
  KvLayout by_slot = kTinyLayout;
  by_slot.key_order = KeyOrder::kBySlot;
  ReceiverOptions allowing;
  allowing.control.allow_mixed_numerics = true;
  DecodeEnd decode(network_, GetParam(), allowing, 64, NumericsHash{78}, by_slot);
  prefill_.Begin(decode.Reserve(16).value());
  const HandoffResult refused = prefill_.WaitForResult();
  EXPECT_EQ(refused.outcome, HandoffOutcome::kRefused) << "the writer does not allow it";
  EXPECT_THAT(refused.reason, HasSubstr("both allow mixed numerics"));

  PrefillEnd prefill(network_, GetParam(), 64, true);
  const LeaseOffer offer = decode.Reserve(32).value();
  const auto handoff = prefill.Begin(offer);
  handoff->PushBlocks(32, Blocks({9, 4}));
  handoff->Commit(32, {{0, 1, false}});
  EXPECT_EQ(prefill.WaitForResult().outcome, HandoffOutcome::kCommitted) << prefill.WaitForResult().reason;
  for (size_t i = 0; i < 2; ++i) {
    std::vector<std::byte> expected(kTinyLayout.BytesPerBlock());
    CopyBlockInOrder(kTinyLayout, KeyOrder::kBySlot, prefill.Block(i == 0 ? 9 : 4).data(), expected.data());
    EXPECT_TRUE(std::ranges::equal(decode.Block(offer.blocks[i]), expected)) << "block " << i;
  }
}

// An offer whose descriptor lies about the hashes still meets the truth at the hello.
TEST_P(Handoff, PD_08_HelloRefusesUnequalHashesToo) {
  DecodeEnd other(network_, GetParam(), {}, 64, NumericsHash{78});
  LeaseOffer offer = other.Reserve(16).value();
  TargetDescriptor target = DecodeTargetDescriptor(offer.target).value();
  target.numerics_hash = kNumerics;
  offer.target = Encode(target);
  const auto handoff = prefill_.Begin(offer);
  const HandoffResult result = prefill_.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kRefused);
  EXPECT_THAT(result.reason, HasSubstr("numerics"));
}

TEST_P(Handoff, BrokenOffersEndWithAReason) {
  LeaseOffer offer = decode_.Reserve(16).value();
  LeaseOffer garbage = offer;
  garbage.target = "not a descriptor";
  prefill_.Begin(garbage);
  EXPECT_EQ(prefill_.WaitForResult(1).outcome, HandoffOutcome::kFailed);

  LeaseOffer empty = offer;
  empty.blocks.clear();
  prefill_.Begin(empty);
  EXPECT_EQ(prefill_.WaitForResult(2).outcome, HandoffOutcome::kFailed);

  LeaseOffer elsewhere = offer;
  TargetDescriptor target = DecodeTargetDescriptor(offer.target).value();
  target.transport = "pigeon";
  elsewhere.target = Encode(target);
  prefill_.Begin(elsewhere);
  EXPECT_EQ(prefill_.WaitForResult(3).outcome, HandoffOutcome::kRefused);
  EXPECT_THAT(prefill_.results.values()[2].reason, HasSubstr("pigeon"));
}

TEST_P(Handoff, ReserveBeyondTheLeasedShareIsRefusedWithTheNumbers) {
  const auto refused = decode_.Reserve(40 * 16);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << "waiting would not help";
  EXPECT_THAT(StatusMessage(refused.status()), HasSubstr("needs 41 KV blocks, 32 may be leased"));
}

}  // namespace
}  // namespace baton
