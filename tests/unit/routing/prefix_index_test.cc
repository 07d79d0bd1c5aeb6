#include "common/routing/prefix_index.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

const Hash128 a{1, 1}, b{2, 2}, c{3, 3};

TEST(PrefixIndex, MatchesFromTheStartOfTheChainOnly) {
  PrefixIndex index;
  index.Reset(std::vector{a, c}, 2);
  EXPECT_EQ(index.Match(std::vector{a, b, c}), 1u);
  EXPECT_EQ(index.Match(std::vector{b, c}), 0u);
  index.Apply(std::vector{b}, {}, 3);
  EXPECT_EQ(index.Match(std::vector{a, b, c}), 3u);
}

TEST(PrefixIndex, ASnapshotForgetsWhatWasBefore) {
  PrefixIndex index;
  index.Reset(std::vector{a, b}, 2);
  index.Reset(std::vector{c}, 9);
  EXPECT_EQ(index.Match(std::vector{a}), 0u);
  EXPECT_EQ(index.Match(std::vector{c}), 1u);
  EXPECT_EQ(index.sequence(), 9u);
  index.Apply({}, std::vector{c}, 10);
  EXPECT_EQ(index.size(), 0u);
}

}  // namespace
}  // namespace baton
