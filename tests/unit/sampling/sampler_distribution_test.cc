// The sampler against a plain implementation in double arithmetic, by chi-square with fixed seeds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "common/sampling/sampler.h"

namespace baton {
namespace {

std::vector<double> ReferenceProbabilities(const SamplingParams& params, const std::vector<float>& logits) {
  std::vector<double> probabilities(logits.size());
  const double max = *std::max_element(logits.begin(), logits.end());
  for (size_t i = 0; i < logits.size(); ++i) probabilities[i] = std::exp((logits[i] - max) / params.temperature);
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  if (params.top_k > 0) order.resize(std::min<size_t>(order.size(), params.top_k));
  double total = 0;
  for (const size_t i : order) total += probabilities[i];
  double passed = 0;
  size_t length = 0;
  while (length < order.size() && passed < params.top_p * total) passed += probabilities[order[length++]];
  order.resize(std::max<size_t>(length, 1));
  std::vector<double> kept(logits.size(), 0.0);
  double mass = 0;
  for (const size_t i : order) {
    if (probabilities[i] < params.min_p) continue;
    kept[i] = probabilities[i];
    mass += probabilities[i];
  }
  for (double& probability : kept) probability /= mass;
  return kept;
}

// The value that chi-square of `degrees` exceeds in about 3 of 100,000 runs (Wilson and Hilferty 1931, z = 4).
double ChiSquareLimit(double degrees) {
  const double a = 2.0 / (9 * degrees);
  return degrees * std::pow(1 - a + 4 * std::sqrt(a), 3);
}

void ExpectSameDistribution(SamplingParams params, const std::vector<float>& logits) {
  constexpr int kDraws = 40000;
  params.max_tokens = kDraws;
  const auto expected = ReferenceProbabilities(params, logits);
  std::vector<int> observed(logits.size(), 0);
  Sampler sampler(params, 0, static_cast<uint32_t>(logits.size()), std::vector<TokenId>{0}, {});
  std::vector<float> scratch;
  for (int i = 0; i < kDraws; ++i) {
    scratch = logits;
    ++observed[sampler.Sample(scratch).id];
  }
  double chi_square = 0, rare_expected = 0, rare_observed = 0;
  int cells = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (expected[i] == 0) {
      ASSERT_EQ(observed[i], 0) << "id " << i << " was filtered";
    } else if (expected[i] * kDraws < 10) {  // too few for the statistic: all rare ids make one cell
      rare_expected += expected[i] * kDraws;
      rare_observed += observed[i];
    } else {
      const double difference = observed[i] - expected[i] * kDraws;
      chi_square += difference * difference / (expected[i] * kDraws);
      ++cells;
    }
  }
  if (rare_expected >= 10) {
    chi_square += (rare_observed - rare_expected) * (rare_observed - rare_expected) / rare_expected;
    ++cells;
  }
  if (cells > 1) {
    EXPECT_LT(chi_square, ChiSquareLimit(cells - 1)) << cells << " cells";
  }
}

std::vector<float> Logits(uint32_t seed, size_t vocab, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(vocab);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(SamplerDistribution, PlainTemperatures) {
  for (const float temperature : {0.3f, 0.8f, 1.0f, 2.0f}) {
    SamplingParams params;
    params.seed = 17;
    params.temperature = temperature;
    ExpectSameDistribution(params, Logits(1, 100, 2));
  }
}

TEST(SamplerDistribution, AllEqualLogitsAreUniform) {
  SamplingParams params;
  params.seed = 5;
  ExpectSameDistribution(params, std::vector<float>(37, -1e30f));
}

TEST(SamplerDistribution, TopK) {
  for (const uint32_t top_k : {2u, 5u, 40u, 1000u}) {
    SamplingParams params;
    params.seed = 18;
    params.top_k = top_k;
    ExpectSameDistribution(params, Logits(2, 100, 1));
  }
}

TEST(SamplerDistribution, TopP) {
  for (const float top_p : {0.1f, 0.5f, 0.9f, 0.99f}) {
    SamplingParams params;
    params.seed = 19;
    params.top_p = top_p;
    ExpectSameDistribution(params, Logits(3, 100, 1.5f));
  }
}

TEST(SamplerDistribution, MinP) {
  for (const float min_p : {0.02f, 0.3f}) {
    SamplingParams params;
    params.seed = 20;
    params.min_p = min_p;
    ExpectSameDistribution(params, Logits(4, 100, 1));
  }
}

TEST(SamplerDistribution, EverythingTogether) {
  SamplingParams params;
  params.seed = 21;
  params.temperature = 1.3f;
  params.top_k = 30;
  params.top_p = 0.8f;
  params.min_p = 0.05f;
  ExpectSameDistribution(params, Logits(5, 200, 2));
}

// Choices of one request must not be copies or shifts of each other.
TEST(SamplerDistribution, ChoicesAreIndependent) {
  constexpr int kDraws = 4000;
  SamplingParams params;
  params.seed = 7;
  params.max_tokens = kDraws;
  const std::vector<TokenId> prompt = {0};
  Sampler a(params, 0, 10, prompt, {}), b(params, 1, 10, prompt, {});
  std::vector<TokenId> left, right;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<float> logits(10, 0.0f);
    left.push_back(a.Sample(logits).id);
    logits.assign(10, 0.0f);
    right.push_back(b.Sample(logits).id);
  }
  for (const int shift : {0, 1, 2}) {
    int equal = 0;
    for (int i = 0; i + shift < kDraws; ++i) equal += left[i + shift] == right[i];
    EXPECT_NEAR(equal, kDraws / 10.0, 5 * std::sqrt(kDraws * 0.09)) << shift;
  }
}

}  // namespace
}  // namespace baton
