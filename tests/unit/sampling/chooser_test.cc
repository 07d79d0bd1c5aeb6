// The choice of few looks at the logits against the plain algorithm, which computes every weight and runs every filter
// over all of them.

#include "common/sampling/chooser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/base/fixed_math.h"
#include "common/sampling/logit_blocks.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace baton {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TokenId PlainChoice(std::vector<float> logits, const SamplingParams& params, uint64_t random) {
  const float max = MaskNonFinite(logits);
  if (max == -kInfinity) return -1;
  if (IsGreedy(params)) return static_cast<TokenId>(std::find(logits.begin(), logits.end(), max) - logits.begin());
  for (float& logit : logits) logit = ExpNonPositive((logit - max) / params.temperature);
  KeptPrefix kept;
  if (params.top_k > 0) kept = KeepTopK(logits, kept, params.top_k);
  kept = KeepTopP(logits, kept, params.top_p);
  kept = KeepMinP(kept, params.min_p);
  return DrawToken(logits, kept, random);
}

std::vector<float> RandomLogits(size_t count, std::mt19937_64* random) {
  std::normal_distribution<float> normal(0.0f, 1.0f + static_cast<float>((*random)() % 6));
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(*random);
  if ((*random)() % 3 == 0) {  // many ties
    for (float& logit : logits) logit = std::round(logit);
  }
  if ((*random)() % 4 == 0) {
    for (size_t i = 0; i < count; i += 1 + (*random)() % 9) {
      logits[i] = (*random)() % 3 == 0 ? kInfinity : (*random)() % 2 == 0 ? -kInfinity : std::nanf("");
    }
  }
  if ((*random)() % 8 == 0) {
    for (float& logit : logits) logit *= 1e7f;
  }
  return logits;
}

TEST(Chooser, ChoosesAsThePlainAlgorithmDoesOnEveryTarget) {
  std::mt19937_64 random(7);
  const auto targets = hwy::SupportedAndGeneratedTargets();
  Chooser chooser;
  for (int round = 0; round < 3000; ++round) {
    const std::vector<float> logits =
        RandomLogits(std::array<size_t, 6>{1, 5, 64, 65, 1000, 5000}[random() % 6], &random);
    SamplingParams params;
    params.temperature = std::array<float, 6>{0.0f, 0.05f, 0.7f, 1.0f, 1.3f, 2.0f}[random() % 6];
    params.top_p = std::array<float, 5>{0.0f, 0.1f, 0.9f, 0.999f, 1.0f}[random() % 5];
    params.top_k = std::array<uint32_t, 6>{0, 0, 1, 3, 40, 4999}[random() % 6];
    params.min_p = std::array<float, 4>{0.0f, 0.0f, 0.05f, 1.0f}[random() % 4];
    const uint64_t bits = random() % 10 == 0 ? (random() % 2 == 0 ? 0 : UINT64_MAX) : random();
    const TokenId expected = PlainChoice(logits, params, bits);
    hwy::SetSupportedTargetsForTest(targets[random() % targets.size()]);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    ASSERT_EQ(chooser.Choose(logits, params, bits), expected)
        << logits.size() << " logits, temperature " << params.temperature << " top_p " << params.top_p << " top_k "
        << params.top_k << " min_p " << params.min_p;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Chooser, NothingIsPossibleWhereNoLogitIs) {
  Chooser chooser;
  EXPECT_EQ(chooser.Choose({}, {}, 1), -1);
  EXPECT_EQ(chooser.Choose(std::vector<float>(70, -kInfinity), {}, 1), -1);
  EXPECT_EQ(chooser.Choose(std::vector<float>{kInfinity, std::nanf("")}, {}, 1), -1);
}

TEST(LogitBlocks, WeightsAndMassesAreThoseOfTheScalarFunctions) {
  std::mt19937_64 random(3);
  for (const size_t count : {1, 63, 64, 200, 1000}) {
    const std::vector<float> logits = RandomLogits(count, &random);
    std::vector<float> maxima(LogitBlocks(count)), weights(count);
    std::vector<uint64_t> masses(maxima.size());
    BlockMaxima(logits, maxima);
    const float max = *std::max_element(maxima.begin(), maxima.end());
    if (max == -kInfinity) continue;
    const uint64_t total = BlockMasses(logits, maxima, max, 0.8f, masses);
    uint64_t expected_total = 0;
    for (size_t block = 0; block < maxima.size(); ++block) {
      const auto part = LogitBlockAt(logits, block);
      BlockWeights(part, max, 0.8f, weights.data());
      uint64_t mass = 0;
      for (size_t i = 0; i < part.size(); ++i) {
        const float logit = std::isfinite(part[i]) ? part[i] : -kInfinity;
        ASSERT_EQ(weights[i], ExpNonPositive((logit - max) / 0.8f));
        mass += WeightMass(weights[i]);
      }
      ASSERT_EQ(masses[block], mass);
      expected_total += mass;
    }
    EXPECT_EQ(total, expected_total);
  }
}

}  // namespace
}  // namespace baton
