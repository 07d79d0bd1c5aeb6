#include "common/sampling/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "common/base/fixed_math.h"

namespace baton {
namespace {

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
