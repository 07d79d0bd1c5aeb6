#include "common/sampling/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "common/sampling/fixed_math.h"
#include "common/sampling/philox.h"

namespace baton {
namespace {

// Known answers of the Random123 distribution.
TEST(Philox, KnownAnswers) {
  using Bits = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Bits{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Bits{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Bits{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(FixedMath, ExpAndLogAreAccurate) {
  EXPECT_EQ(ExpNonPositive(0.0f), 1.0f);
  EXPECT_EQ(ExpNonPositive(-29.0f), 0.0f);
  EXPECT_EQ(ExpNonPositive(-std::numeric_limits<float>::infinity()), 0.0f);
  for (float x = -28.0f; x < 0; x += 0.00137f) {
    ASSERT_NEAR(ExpNonPositive(x) / std::exp(static_cast<double>(x)), 1.0, 3e-7) << x;
  }
  for (double x = 1e-6; x < 1e7; x *= 1.0137)
    ASSERT_NEAR(Log(x), std::log(x), 1e-14 * std::max(1.0, std::abs(std::log(x))));
}

// `count` weights with a 1 among them; few distinct values, so that ties are common.
std::vector<float> RandomWeights(std::mt19937* random, size_t count) {
  std::vector<float> weights(count);
  for (float& weight : weights) weight = ExpNonPositive(-static_cast<float>((*random)() % 40) * 0.9f);
  weights[(*random)() % count] = 1.0f;
  return weights;
}

std::vector<TokenId> Kept(const std::vector<float>& weights, KeptPrefix kept) {
  std::vector<TokenId> ids;
  for (size_t id = 0; id < weights.size(); ++id) {
    if (kept.Keeps(weights[id], static_cast<TokenId>(id))) ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

// By sorting: the slow and plain way.
std::vector<TokenId> Reference(const std::vector<float>& weights, uint32_t top_k, float top_p, float min_p) {
  std::vector<TokenId> order;
  for (size_t id = 0; id < weights.size(); ++id) {
    if (WeightMass(weights[id]) > 0) order.push_back(static_cast<TokenId>(id));
  }
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return weights[a] > weights[b]; });
  if (top_k > 0 && order.size() > top_k) order.resize(top_k);
  long double total = 0, passed = 0;
  for (const TokenId id : order) total += weights[id];
  size_t length = 0;
  while (length < order.size()) {
    passed += weights[order[length++]];
    if (passed >= total * top_p) break;
  }
  if (top_p < 1) order.resize(length);
  while (order.size() > 1 && weights[order.back()] < min_p) order.pop_back();
  std::sort(order.begin(), order.end());
  return order;
}

TEST(Weights, FiltersKeepWhatSortingKeeps) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto weights = RandomWeights(&random, 1 + random() % 60);
    const uint32_t top_k = random() % 3 == 0 ? 0 : 1 + random() % 70;
    const float top_p = random() % 3 == 0 ? 1.0f : static_cast<float>(random() % 1000) / 1000 + 0.00037f;
    const float min_p = random() % 3 == 0 ? 0.0f : static_cast<float>(random() % 1000) / 1000;
    KeptPrefix kept;
    if (top_k > 0) kept = KeepTopK(weights, kept, top_k);
    kept = KeepTopP(weights, kept, top_p);
    const KeptPrefix with_min_p = KeepMinP(kept, min_p);
    ASSERT_EQ(Kept(weights, with_min_p), Reference(weights, top_k, top_p, min_p))
        << "trial " << trial << " k " << top_k << " p " << top_p << " min_p " << min_p;
  }
}

TEST(Weights, FiltersKeepAtLeastOne) {
  const std::vector<float> weights = {0.5f, 1.0f, 1.0f, 0};
  EXPECT_EQ(Kept(weights, KeepTopP(weights, {}, 0.0f)), std::vector<TokenId>{1});
  EXPECT_EQ(Kept(weights, KeepTopK(weights, {}, 0)), std::vector<TokenId>{1});
  EXPECT_EQ(Kept(weights, KeepMinP({}, 1.0f)), (std::vector<TokenId>{1, 2}));
}

TEST(Weights, DrawsCoverTheKeptMassFromEndToEnd) {
  const std::vector<float> weights = {0.5f, 1.0f, 0, 0.5f};
  EXPECT_EQ(DrawToken(weights, {}, 0), 0);
  EXPECT_EQ(DrawToken(weights, {}, uint64_t{1} << 62), 1);
  EXPECT_EQ(DrawToken(weights, {}, (uint64_t{3} << 62) - 1), 1);
  EXPECT_EQ(DrawToken(weights, {}, uint64_t{3} << 62), 3);
  EXPECT_EQ(DrawToken(weights, {}, ~uint64_t{0}), 3);
}

}  // namespace
}  // namespace baton
