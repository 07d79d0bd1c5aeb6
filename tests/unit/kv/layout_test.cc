#include "common/kv/layout.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

const KvLayout kQwen{.dtype = DType::kBF16, .layers = 24, .kv_heads = 2, .head_dim = 64, .block_size = 16};

TEST(KvLayout, SizesOfTheQwenHalfBillionModel) {
  EXPECT_EQ(kQwen.BytesPerToken(), 12288u);
  EXPECT_EQ(kQwen.BytesPerBlock(), 196608u);
}

// A prompt that ends on a block border needs no block more than its tokens fill.
TEST(KvLayout, PD_09_BlocksForLengthsAroundBlockBorders) {
  EXPECT_EQ(kQwen.BlocksFor(1), 1u);
  EXPECT_EQ(kQwen.BlocksFor(15), 1u);
  EXPECT_EQ(kQwen.BlocksFor(16), 1u);
  EXPECT_EQ(kQwen.BlocksFor(17), 2u);
  EXPECT_EQ(kQwen.BlocksFor(31), 2u);
  EXPECT_EQ(kQwen.BlocksFor(32), 2u);
  EXPECT_EQ(kQwen.BlocksFor(33), 3u);
}

// [block][layer][k|v][kv_head]
TEST(KvLayout, OffsetsAreBlockMajor) {
  const KvLayout layout{.dtype = DType::kF32, .layers = 2, .kv_heads = 3, .head_dim = 4, .block_size = 16};
  EXPECT_EQ(layout.HeadBytes(), 16u * 4 * 4);
  EXPECT_EQ(layout.HeadOffset(0, 0, 0, 1), layout.HeadBytes());
  EXPECT_EQ(layout.HeadOffset(0, 0, 1, 0), 3 * layout.HeadBytes());
  EXPECT_EQ(layout.HeadOffset(0, 1, 0, 0), 2 * 3 * layout.HeadBytes());
  EXPECT_EQ(layout.HeadOffset(1, 0, 0, 0), layout.BytesPerBlock());
}

TEST(KvLayout, Int8AddsAScaleForEveryTokenAndHead) {
  KvLayout layout = kQwen;
  layout.dtype = DType::kI8;
  EXPECT_EQ(layout.BytesPerToken(), 12288u / 2 + 24 * 2 * 2 * 4);
  EXPECT_EQ(layout.HeadBytes(), 16u * (64 + 4));
  EXPECT_EQ(layout.HeadOffset(1, 0, 0, 0), layout.BytesPerBlock());
}

TEST(KvLayout, PD_08_EveryFieldButTheOrderOfKeysChangesTheHash) {
  EXPECT_EQ(kQwen.Hash(), KvLayout(kQwen).Hash());
  KvLayout other = kQwen;
  other.dtype = DType::kF16;
  EXPECT_NE(other.Hash(), kQwen.Hash());
  other = kQwen;
  other.layers = 25;
  EXPECT_NE(other.Hash(), kQwen.Hash());
  other = kQwen;
  other.kv_heads = 4;
  EXPECT_NE(other.Hash(), kQwen.Hash());
  other = kQwen;
  other.head_dim = 128;
  EXPECT_NE(other.Hash(), kQwen.Hash());
  other = kQwen;
  other.block_size = 32;
  EXPECT_NE(other.Hash(), kQwen.Hash());
  other = kQwen;
  other.key_order = KeyOrder::kByElement;
  EXPECT_EQ(other.Hash(), kQwen.Hash());
}

}  // namespace
}  // namespace baton
