#include "common/engine/block_table.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

constexpr uint32_t kBlockSize = 16;

class BlockTableTest : public testing::Test {
 protected:
  BlockTable Filled(uint32_t blocks) {
    BlockTable table;
    table.Append(*pool_.Allocate(blocks));
    return table;
  }

  BlockPool pool_{8};
  std::vector<BlockCopy> copies_;
};

TEST_F(BlockTableTest, GrowsByWholeBlocks) {
  BlockTable table;
  EXPECT_EQ(table.Missing(pool_, kBlockSize, 0, 1), 1u);
  EXPECT_EQ(table.Missing(pool_, kBlockSize, 0, 33), 3u);
  table.AddSpares(*pool_.Allocate(1));
  EXPECT_EQ(table.Missing(pool_, kBlockSize, 0, 33), 2u);
  table.AddSpares(*pool_.Allocate(2));
  table.MakeWritable(&pool_, kBlockSize, 0, 33, &copies_);
  EXPECT_EQ(table.blocks().size(), 3u);
  EXPECT_EQ(table.Missing(pool_, kBlockSize, 33, 48), 0u);
  EXPECT_EQ(table.Missing(pool_, kBlockSize, 48, 49), 1u);
  EXPECT_TRUE(copies_.empty());
  table.ReleaseAll(&pool_);
  EXPECT_EQ(pool_.counts().owned, 0u);
}

//   a: [0][1][2 partial]      write of position 40 by b copies 2 first; a, then alone, writes in place
//   b: [0][1][2 partial]
TEST_F(BlockTableTest, TheSharedPartialBlockIsCopiedByAllButTheLastHolder) {
  BlockTable a = Filled(3);
  BlockTable b = a.ShareFirst(&pool_, 3);
  const BlockId shared = a.blocks()[2];
  EXPECT_EQ(b.Missing(pool_, kBlockSize, 40, 41), 1u);
  b.AddSpares(*pool_.Allocate(1));
  b.MakeWritable(&pool_, kBlockSize, 40, 41, &copies_);
  ASSERT_EQ(copies_.size(), 1u);
  EXPECT_EQ(copies_[0].from, shared);
  EXPECT_EQ(copies_[0].to, b.blocks()[2]);
  EXPECT_NE(b.blocks()[2], shared);
  EXPECT_EQ(b.blocks()[1], a.blocks()[1]);
  EXPECT_EQ(a.Missing(pool_, kBlockSize, 40, 41), 0u);
  a.MakeWritable(&pool_, kBlockSize, 40, 41, &copies_);
  EXPECT_EQ(copies_.size(), 1u);
  EXPECT_EQ(a.blocks()[2], shared);
  a.ReleaseAll(&pool_);
  b.ReleaseAll(&pool_);
  EXPECT_EQ(pool_.counts().free, 8u);
}

TEST_F(BlockTableTest, AFullSharedBlockNeedsNoCopy) {
  BlockTable a = Filled(2);
  BlockTable b = a.ShareFirst(&pool_, 2);
  EXPECT_EQ(b.Missing(pool_, kBlockSize, 32, 33), 1u);  // the next block only
  b.AddSpares(*pool_.Allocate(1));
  b.MakeWritable(&pool_, kBlockSize, 32, 33, &copies_);
  EXPECT_TRUE(copies_.empty());
  a.ReleaseAll(&pool_);
  b.ReleaseAll(&pool_);
  EXPECT_EQ(pool_.counts().owned, 0u);
}

}  // namespace
}  // namespace baton
