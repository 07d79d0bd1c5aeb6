#include "common/handoff/commit_verifier.h"

#include "common/base/hash.h"
#include "common/base/status.h"
#include "tests/unit/handoff/handoff_rig.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class CommitVerifier : public ::testing::Test {
 protected:
  CommitVerifier() {
    FillRandom(memory_, 1);
    lease_.prompt_tokens = 40;
    lease_.choices = 2;
    lease_.prompt_blocks = {1, 4, 5};
    commit_.token_count = 40;
    commit_.first_tokens = {{0, 5, false}, {1, 6, true}};
    for (const BlockId block : lease_.prompt_blocks) commit_.checksums.push_back(Checksum(BlockBytes(block)));
  }
  absl::Status Verify() { return VerifyCommit(lease_, commit_, pool_); }
  std::span<std::byte> BlockBytes(BlockId block) {
    return std::span(memory_).subspan(block * kTinyLayout.BytesPerBlock(), kTinyLayout.BytesPerBlock());
  }
  void ExpectRefused(absl::StatusCode code, const std::string& text) {
    EXPECT_EQ(Verify().code(), code);
    EXPECT_THAT(StatusMessage(Verify()), HasSubstr(text));
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(8 * kTinyLayout.BytesPerBlock());
  HostPool pool_{kTinyLayout, memory_};
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
    std::byte& byte = BlockBytes(lease_.prompt_blocks[i]).back();
    byte ^= std::byte{0x80};
    ExpectRefused(absl::StatusCode::kDataLoss, "leased block " + std::to_string(i));
    byte ^= std::byte{0x80};
  }
}

}  // namespace
}  // namespace baton
