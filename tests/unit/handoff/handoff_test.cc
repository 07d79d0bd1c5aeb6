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

}  // namespace
}  // namespace baton
