#include "common/base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/base/block_hash.h"

namespace baton {
namespace {

TEST(Hash, MatchesTheReferenceOfMurmurHash3) {
  // Published vectors of the x64 128-bit variant, seed 0.
  EXPECT_EQ(HashText(""), (Hash128{0, 0}));
  EXPECT_EQ(HashText("The quick brown fox jumps over the lazy dog"),
            (Hash128{0xe34bbc7bbc071b6cULL, 0x7a433ca9c49a9347ULL}));
}

TEST(Hash, EveryLengthAndEveryFlippedByteDiffers) {
  std::set<Hash128> seen;
  const std::string text(64, 'x');
  for (size_t length = 0; length <= text.size(); ++length) seen.insert(HashText(text.substr(0, length)));
  for (size_t i = 0; i < text.size(); ++i) {
    std::string flipped = text;
    flipped[i] ^= 1;
    seen.insert(HashText(flipped));
  }
  EXPECT_EQ(seen.size(), 65u + 64u);
}

TEST(BlockHashChain, CoversFullBlocksAndDependsOnAllTokensBefore) {
  std::vector<TokenId> a(40, 7), b(40, 7);
  b[0] = 8;
  const auto chain_a = HashBlockChain(a, 16, "");
  const auto chain_b = HashBlockChain(b, 16, "");
  ASSERT_EQ(chain_a.size(), 2u);
  EXPECT_NE(chain_a[0], chain_b[0]);
  EXPECT_NE(chain_a[1], chain_b[1]) << "equal tokens, other prefix";
  a.resize(16);
  EXPECT_EQ(HashBlockChain(a, 16, "")[0], chain_a[0]);
}

TEST(BlockHashChain, SaltsShareNothing) {
  const std::vector<TokenId> tokens(16, 1);
  EXPECT_NE(HashBlockChain(tokens, 16, "alice")[0], HashBlockChain(tokens, 16, "bob")[0]);
}

}  // namespace
}  // namespace baton
