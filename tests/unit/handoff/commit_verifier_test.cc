#include "common/handoff/commit_verifier.h"

#include "common/base/hash.h"
#include "common/base/status.h"
#include "tests/unit/handoff/handoff_rig.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class CommitVerifier : public ::testing::Test {
 protected:
  CommitVerifier() : memory_(8 * kTinyLayout.BytesPerBlock()) {
    FillRandom(memory_, 1);
    lease_.prompt_tokens = 40;
    lease_.choices = 2;
    lease_.prompt_blocks = {1, 4, 5};
    commit_.token_count = 40;
    commit_.first_tokens = {{0, 5, false}, {1, 6, true}};
    for (const BlockId block : lease_.prompt_blocks) {
      commit_.checksums.push_back(Checksum(BlockBytes(kTinyLayout, memory_, block)));
    }
  }
  absl::Status Verify() const { return VerifyCommit(lease_, commit_, kTinyLayout, memory_); }
  void ExpectRefused(absl::StatusCode code, const std::string& text) const {
    EXPECT_EQ(Verify().code(), code);
    EXPECT_THAT(StatusMessage(Verify()), HasSubstr(text));
  }

  std::vector<std::byte> memory_;
  Lease lease_;
  CommitMessage commit_;
};

TEST_F(CommitVerifier, AcceptsWhatWasWritten) { EXPECT_TRUE(Verify().ok()) << Verify(); }

TEST_F(CommitVerifier, PD_05_RefusesAnotherTokenCount) {
  commit_.token_count = 41;
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "41 prompt tokens, the lease is for 40");
}

TEST_F(CommitVerifier, PD_05_RefusesATruncatedBlockList) {
  commit_.checksums.pop_back();
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "2 checksums, the lease has 3");
}

TEST_F(CommitVerifier, RefusesFirstTokensThatDoNotFitTheChoices) {
  commit_.first_tokens.pop_back();
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "1 first tokens, the lease has 2");
  commit_.first_tokens.push_back({0, 7, false});
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "two first tokens for choice 0");
  commit_.first_tokens.back() = {1, -1, false};
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "choice 1 is -1");
}

TEST_F(CommitVerifier, PD_05_OneFlippedBitInAnyBlockIsDataLoss) {
  for (size_t i = 0; i < 3; ++i) {
    std::byte& byte = BlockBytes(kTinyLayout, memory_, lease_.prompt_blocks[i]).back();
    byte ^= std::byte{0x80};
    ExpectRefused(absl::StatusCode::kDataLoss, "leased block " + std::to_string(i));
    byte ^= std::byte{0x80};
  }
}

TEST_F(CommitVerifier, ZeroesOnlyTheUnusedSlotsOfItsBlock) {
  const std::vector<std::byte> before = memory_;
  ZeroUnusedSlots(kTinyLayout, memory_, 4, 9);
  for (uint64_t i = 0; i < memory_.size(); ++i) {
    const bool is_value = i / kTinyLayout.HeadBytes() % 2 == 1;
    const uint64_t number = i / sizeof(float), slot = (is_value ? number / kTinyLayout.head_dim : number) % 16;
    const bool unused = i / kTinyLayout.BytesPerBlock() == 4 && slot >= 9;
    ASSERT_EQ(memory_[i], unused ? std::byte{0} : before[i]) << "byte " << i;
  }
}

TEST(ZeroUnusedSlots, FollowsTheOrderOfKeys) {
  const KvLayout layout{.dtype = DType::kF32, .layers = 1, .kv_heads = 1, .head_dim = 2, .block_size = 16};
  std::vector<std::byte> memory(layout.BytesPerBlock(), std::byte{0xff});
  ZeroUnusedSlots(layout, memory, 0, 3);
  const auto* keys = reinterpret_cast<const uint32_t*>(memory.data());
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(keys[i], i < 3 * 2 ? 0xffffffffu : 0u) << i;
}

TEST(ZeroUnusedSlots, TakesTheScalesOfInt8AsWell) {
  const KvLayout layout{.dtype = DType::kI8,
                        .layers = 1,
                        .kv_heads = 2,
                        .head_dim = 8,
                        .block_size = 16,
                        .key_order = KeyOrder::kByElement};
  std::vector<std::byte> memory(layout.BytesPerBlock(), std::byte{0xff});
  ZeroUnusedSlots(layout, memory, 0, 15);
  uint64_t zeros = 0;
  for (const std::byte byte : memory) zeros += byte == std::byte{0};
  EXPECT_EQ(zeros, layout.BytesPerToken());
  for (uint32_t kv = 0; kv < 2; ++kv) {
    const auto* end = reinterpret_cast<const uint32_t*>(memory.data() + layout.HeadOffset(0, 0, kv, 1));
    EXPECT_EQ(end[-1], 0u);
    EXPECT_EQ(end[-2], 0xffffffffu);
  }
}

}  // namespace
}  // namespace baton
