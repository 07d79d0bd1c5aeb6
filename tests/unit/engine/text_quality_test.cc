#include "common/engine/text_quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include "common/text/tokenizer.h"
#include "tests/fakes/random_model.h"
#include "tests/unit/engine/runner_harness.h"

namespace baton {
namespace {

std::vector<TokenId> RandomTokens(size_t count) {
  std::mt19937 generator(5);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(generator() % 320);
  return tokens;
}

std::shared_ptr<const CpuWeights> Tiny(WeightsFormat format) {
  return PackOrDie(*fakes::MakeRandomModel(fakes::TinyConfig(), 1), format);
}

TEST(TextQuality, PredictsEveryTokenFromThoseBeforeItInItsWindow) {
  const std::vector<TokenId> tokens = RandomTokens(100);
  const auto prediction = PredictText(Tiny(WeightsFormat::kF32), tokens, 40, 1);
  ASSERT_TRUE(prediction.ok());
  ASSERT_EQ(prediction->log_probabilities.size(), 97u);  // windows of 40, 40 and 20
  RunnerHarness harness(Tiny(WeightsFormat::kF32), DType::kF32, 8);
  for (const size_t i : {40u, 41u, 75u, 78u}) {
    RunnerHarness::Sequence sequence;
    const auto logits = harness.Append(sequence, {tokens.begin() + 40, tokens.begin() + i + 1});
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    EXPECT_NEAR(prediction->log_probabilities[i - 1], logits[tokens[i + 1]] - std::log(sum), 1e-9) << i;
    EXPECT_EQ(prediction->best[i - 1], std::max_element(logits.begin(), logits.end()) - logits.begin());
    harness.Release(sequence);
  }
}

TEST(TextQuality, PerplexityIsTheExponentialOfTheMeanLossAndEqualsTheVocabularyForAFlatGuess) {
  const TextPrediction flat{.log_probabilities = std::vector<double>(7, -std::log(320.0)), .best = {}};
  EXPECT_NEAR(flat.Perplexity(), 320, 1e-9);
}

TEST(TextQuality, AgreementCountsEqualChoices) {
  const TextPrediction a{.log_probabilities = {}, .best = {1, 2, 3, 4}},
      b{.log_probabilities = {}, .best = {1, 2, 9, 4}};
  EXPECT_EQ(Agreement(a, b), 0.75);
}

TEST(TextQuality, RefusesATextOfOneToken) {
  const std::vector<TokenId> one = {1};
  EXPECT_EQ(PredictText(Tiny(WeightsFormat::kF32), one, 40, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

// The bounds that formats are held to. Needs the real file (deploy/local/get-model.sh smollm2).
TEST(TextQuality, RoundedWeightsOfSmolLm2PredictAlmostAsWellAsF32) {
  const char* path = std::getenv("BATON_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "BATON_SMOLLM2_GGUF is not set";
  const auto model = model::LoadModel(path);
  ASSERT_TRUE(model.ok());
  const auto tokenizer = Tokenizer::Create((*model)->text);
  ASSERT_TRUE(tokenizer.ok());
  std::ifstream file(std::string(BATON_SOURCE_DIR) + "/tests/golden/quality.txt");
  std::stringstream text;
  text << file.rdbuf();
  const auto tokens = (*tokenizer)->Encode(text.str());
  ASSERT_TRUE(tokens.ok());
  ASSERT_GT(tokens->size(), 1500u);
  const auto predict = [&](WeightsFormat format) {
    auto prediction = PredictText(PackOrDie(**model, format), *tokens, 512, 0);
    EXPECT_TRUE(prediction.ok());
    return *std::move(prediction);
  };
  const TextPrediction f32 = predict(WeightsFormat::kF32);
  for (const auto& [format, bound] :
       {std::pair{WeightsFormat::kInt8, 1.005}, {WeightsFormat::kInt4, 1.04}, {WeightsFormat::kAuto, 1.005}}) {
    const TextPrediction rounded = predict(format);
    std::cout << WeightsFormatName(format) << ": " << rounded.Perplexity() << " against " << f32.Perplexity()
              << ", agreement " << Agreement(f32, rounded) << "\n";
    EXPECT_LT(rounded.Perplexity(), bound * f32.Perplexity()) << WeightsFormatName(format);
    EXPECT_GT(Agreement(f32, rounded), 0.9) << WeightsFormatName(format);
  }
}

}  // namespace
}  // namespace baton
