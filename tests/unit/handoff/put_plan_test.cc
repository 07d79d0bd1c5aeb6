#include "common/handoff/put_plan.h"

#include "common/base/status.h"
#include "tests/unit/handoff/handoff_rig.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class PutPlan : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<PutRun>> Plan(std::vector<BlockId> source, std::vector<BlockId> target,
                                           uint32_t first_block, uint32_t first, uint32_t last,
                                           KeyOrder order = kTinyLayout.key_order) const {
    LeaseOffer offer;
    offer.first_block = first_block;
    offer.blocks = std::move(target);
    return PlanPuts(pool_, order, offer, source, first, last);
  }
  uint64_t SourceBlock(const PutRun& run) const { return (run.source - memory_.data()) / kTinyLayout.BytesPerBlock(); }

  std::vector<std::byte> memory_ = std::vector<std::byte>(16 * kTinyLayout.BytesPerBlock());
  const HostPool pool_{kTinyLayout, memory_};
};

// source  3 4 5 | 9 | 10
// target  7 8 9 |10 | 12
TEST_F(PutPlan, NeighboursOnBothSidesShareARun) {
  const auto runs = Plan({3, 4, 5, 9, 10}, {7, 8, 9, 10, 12}, 0, 0, 5).value();
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(SourceBlock(runs[0]), 3u);
  EXPECT_EQ(runs[0].target_offset, 7 * kTinyLayout.BytesPerBlock());
  EXPECT_EQ(runs[0].bytes, 3 * kTinyLayout.BytesPerBlock());
  EXPECT_EQ(SourceBlock(runs[1]), 9u);
  EXPECT_EQ(runs[1].target_offset, 10 * kTinyLayout.BytesPerBlock());
  EXPECT_EQ(runs[2].target_offset, 12 * kTinyLayout.BytesPerBlock());
}

// Where keys must change their order, the transport reads through the pool: runs name places in it.
TEST_F(PutPlan, RunsForAnotherOrderOfKeysHaveNoPointer) {
  const auto runs = Plan({3, 4, 9}, {7, 8, 9}, 0, 0, 3, KeyOrder::kBySlot).value();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].source, nullptr);
  EXPECT_EQ(runs[0].source_offset, 3 * kTinyLayout.BytesPerBlock());
  EXPECT_EQ(runs[0].bytes, 2 * kTinyLayout.BytesPerBlock());
  EXPECT_EQ(runs[1].source_offset, 9 * kTinyLayout.BytesPerBlock());
}

TEST_F(PutPlan, TargetBlocksCountFromTheFirstThatIsNotPinned) {
  const auto runs = Plan({0, 1, 2, 3}, {20, 30}, 2, 3, 4).value();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(SourceBlock(runs[0]), 3u);
  EXPECT_EQ(runs[0].target_offset, 30 * kTinyLayout.BytesPerBlock());
}

TEST_F(PutPlan, PD_05_MissingAndOutOfRangeBlocksAreRefused) {
  EXPECT_THAT(StatusMessage(Plan({0}, {1, 2}, 0, 0, 2).status()), HasSubstr("the block table has 1"));
  EXPECT_THAT(StatusMessage(Plan({0, 1}, {1}, 0, 0, 2).status()), HasSubstr("do not lie in the lease of 1"));
  EXPECT_THAT(StatusMessage(Plan({0, 1}, {1}, 1, 0, 2).status()), HasSubstr("from block 1"));
  EXPECT_THAT(StatusMessage(Plan({16}, {1}, 0, 0, 1).status()), HasSubstr("block 16 of a pool of 16"));
}

}  // namespace
}  // namespace baton
