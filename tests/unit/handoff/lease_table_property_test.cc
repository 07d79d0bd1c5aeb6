// Random interleavings of everything that can happen to leases, against a model that knows which blocks a writer may
// still reach. After each operation: I1 (states add up), I2 (only verified commits of the right writer run), I3 (no
// block that a writer may reach is given to anyone), I4 (in the end every lease ends, once).

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "common/base/status.h"
#include "common/handoff/lease_table.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr uint32_t kBlocks = 48;
constexpr uint64_t kBlockBytes = 64;
constexpr uint64_t kWriters = 3;

struct ModelLease {
  Lease lease;
  std::optional<Incarnation> writer;  // as of the attach that was answered "attached"
  bool writer_done = false;           // it fenced, committed or exited: it will write no more
  bool committed = false;
  int ends = 0;
  uint32_t copies = 0;
};

class LeaseInterleaving : public ::testing::TestWithParam<uint32_t> {
 protected:
  LeaseInterleaving() : random_(GetParam()), pool_(kBlocks) {
    LeaseLimits limits;
    limits.max_leased_blocks = 32;
    limits.max_quarantined_blocks = 24;
    limits.max_tombstones = 16;
    limits.block_bytes = kBlockBytes;
    table_ = std::make_unique<LeaseTable>(limits, &pool_, &clock_);
  }

  uint32_t Random(uint32_t bound) { return random_() % bound; }
  Incarnation Peer() { return Incarnation{1 + Random(kWriters)}; }
  ModelLease& Any() { return *std::next(leases_.begin(), Random(leases_.size()))->second; }
  LeaseKey KeyOf(const ModelLease& model) {
    LeaseKey key = model.lease.key;
    if (Random(8) == 0) ++key.secret;  // now and then a forged one
    return key;
  }

  void Reserve() {
    auto model = std::make_unique<ModelLease>();
    ModelLease* raw = model.get();
    const uint32_t prompt_blocks = 1 + Random(4);
    auto lease = table_->Reserve(prompt_blocks * 16, prompt_blocks, 1 + Random(2),
                                 [this, raw](absl::StatusOr<CommittedHandoff> end) { OnEnd(*raw, std::move(end)); });
    if (!lease.ok()) return;
    model->lease = *lease;
    for (const BlockId block : BlocksOf(*model)) ASSERT_TRUE(MayTake(block)) << "block " << block << " is in reach";
    ASSERT_TRUE(table_->Renew(lease->key).ok());
    leases_.emplace(lease->key.lease.value, std::move(model));
  }

  void OnEnd(ModelLease& model, absl::StatusOr<CommittedHandoff> end) {
    ++model.ends;
    ASSERT_EQ(model.ends, 1);
    if (!end.ok()) return;
    ASSERT_TRUE(model.committed) << "runs without a commit";
    owned_.insert(end->blocks.begin(), end->blocks.end());
  }

  // Blocks that a live writer, or a copy under way, may still change.
  bool MayTake(BlockId block) const {
    if (owned_.contains(block)) return false;
    for (const auto& [id, model] : leases_) {
      const bool in_reach = model->writer && !model->writer_done;
      if (!in_reach && model->copies == 0) continue;
      for (const BlockId other : BlocksOf(*model)) {
        if (other == block) return false;
      }
    }
    return true;
  }
  static std::vector<BlockId> BlocksOf(const ModelLease& model) {
    std::vector<BlockId> blocks = model.lease.prompt_blocks;
    blocks.insert(blocks.end(), model.lease.growth_blocks.begin(), model.lease.growth_blocks.end());
    return blocks;
  }

  void Step() {
    if (leases_.empty()) return Reserve();
    ModelLease& model = Any();
    const LeaseKey key = KeyOf(model);
    const bool forged = key != model.lease.key;
    const Incarnation peer = Peer();
    switch (Random(14)) {
      case 0:
      case 1:
        return Reserve();
      case 2:
      case 3: {
        const bool ended = model.ends > 0;
        if (table_->Attach(peer, key).answer == LeaseAnswer::kAttached) {
          ASSERT_FALSE(forged || ended);
          ASSERT_TRUE(!model.writer || *model.writer == peer);
          model.writer = peer;
        }
        return;
      }
      case 4: {
        const WriteStamp stamp{key.lease, key.generation};
        const BlockId block = Random(2) == 0 ? Random(kBlocks) : model.lease.prompt_blocks[0];
        if (table_->Admit(stamp, block * kBlockBytes, kBlockBytes)) {
          ASSERT_TRUE(model.writer && !model.writer_done && model.ends == 0);
          const auto& blocks = model.lease.prompt_blocks;
          ASSERT_NE(std::find(blocks.begin(), blocks.end(), block), blocks.end());
          ++model.copies;
        }
        return;
      }
      case 5:
        if (model.copies > 0) {
          table_->Written({key.lease, key.generation});
          --model.copies;
        }
        return;
      case 6:
      case 7: {
        const LeaseTable::CommitStart start = table_->BeginCommit(peer, key);
        const bool honest = !forged && model.writer == peer;
        if (start.kind == LeaseTable::CommitStart::Kind::kVerify) {
          ASSERT_TRUE(honest && model.ends == 0 && model.copies == 0);
          verifying_.insert(key.lease);
        }
        if (honest) model.writer_done = true;  // it promised so by committing
        return;
      }
      case 8:
        if (!verifying_.empty()) {
          const LeaseId id = *verifying_.begin();
          verifying_.erase(id);
          ModelLease& verified = *leases_.at(id.value);
          const bool good = Random(3) > 0;
          verified.committed = good && verified.ends == 0;
          const AnswerMessage answer =
              table_->FinishCommit(id, good ? absl::OkStatus() : DataLoss("a checksum differs"), {});
          ASSERT_EQ(answer.answer == LeaseAnswer::kCommitted, verified.committed);
        }
        return;
      case 9:
        if (table_->Fence(peer, {key, "test"}).answer == LeaseAnswer::kDiscarded) {
          ASSERT_FALSE(forged);
        }
        if (!forged && (!model.writer || *model.writer == peer)) {
          model.writer_done = true;
          if (!model.writer) model.writer = peer;
        }
        return;
      case 10:
        table_->Cancel(key);
        return;
      case 11: {
        const PeerEvent events[] = {PeerEvent::kSuspect, PeerEvent::kRecovered, PeerEvent::kGone, PeerEvent::kLost};
        const PeerEvent event = events[Random(4)];
        table_->OnPeerEvent(peer, event);
        if (event != PeerEvent::kGone) return;
        for (auto& [id, other] : leases_) {
          if (other->writer == peer) other->writer_done = true;
        }
        return;
      }
      case 12:
        clock_.Advance(std::chrono::seconds(Random(6)));
        table_->Reap();
        return;
      case 13:
        if (!owned_.empty()) {  // a sequence ends
          const BlockId block = *owned_.begin();
          owned_.erase(block);
          pool_.Release(std::vector<BlockId>{block});
        }
        return;
    }
  }

  void Check() {
    for (const auto& end : table_->TakeEnds()) end();
    const BlockCounts counts = pool_.counts();
    ASSERT_EQ(counts.total(), kBlocks);
    ASSERT_EQ(counts.owned, owned_.size());
    // I3 from the pool's side: everything in reach of a writer is out of the free list.
    std::set<BlockId> in_reach;
    for (const auto& [id, model] : leases_) {
      if ((model->writer && !model->writer_done) || model->copies > 0) {
        for (const BlockId block : BlocksOf(*model)) in_reach.insert(block);
      }
    }
    ASSERT_GE(counts.leased + counts.quarantined, in_reach.size());
  }

  std::mt19937 random_;
  FakeClock clock_;
  BlockPool pool_;
  std::unique_ptr<LeaseTable> table_;
  std::map<uint64_t, std::unique_ptr<ModelLease>> leases_;
  std::set<BlockId> owned_;
  std::set<LeaseId> verifying_;
};

TEST_P(LeaseInterleaving, KeepsTheInvariants) {
  for (int step = 0; step < 4000; ++step) {
    ASSERT_NO_FATAL_FAILURE(Step()) << "step " << step;
    ASSERT_NO_FATAL_FAILURE(Check()) << "step " << step;
  }
  // Everything comes to its end: copies end, commits are verified, time passes, all writers exit.
  for (auto& [id, model] : leases_) {
    for (; model->copies > 0; --model->copies) {
      table_->Written({model->lease.key.lease, model->lease.key.generation});
    }
  }
  for (const LeaseId id : verifying_) (void)table_->FinishCommit(id, DataLoss("the end"), {});
  for (uint64_t peer = 1; peer <= kWriters; ++peer) table_->OnPeerEvent(Incarnation{peer}, PeerEvent::kGone);
  for (auto& [id, model] : leases_) model->writer_done = true;
  clock_.Advance(std::chrono::hours(1));
  table_->Reap();
  Check();
  EXPECT_EQ(table_->open_leases(), 0u);
  for (const auto& [id, model] : leases_) EXPECT_EQ(model->ends, 1) << "lease " << id;
  EXPECT_EQ(pool_.counts().leased, 0u);
  EXPECT_EQ(pool_.counts().quarantined, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LeaseInterleaving, ::testing::Range(1u, 13u));

}  // namespace
}  // namespace baton
