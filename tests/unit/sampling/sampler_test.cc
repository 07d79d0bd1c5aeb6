#include "common/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "common/base/philox.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

SamplingParams Greedy() {
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = 1000;
  return params;
}

SamplingParams Random(uint64_t seed) {
  SamplingParams params;
  params.temperature = 0.8f;
  params.seed = seed;
  params.max_tokens = 1000;
  return params;
}

Sampler Make(const SamplingParams& params, uint32_t vocab, std::vector<TokenId> prompt = {0},
             std::vector<TokenId> generated = {}, uint32_t choice = 0) {
  return Sampler(params, choice, vocab, prompt, generated);
}

SampledToken Sample(Sampler& sampler, std::vector<float> logits) { return sampler.Sample(logits); }

// Logits that differ from step to step, as a model's do.
std::vector<float> StepLogits(uint32_t step, uint32_t vocab) {
  std::vector<float> logits(vocab);
  for (uint32_t id = 0; id < vocab; ++id) {
    logits[id] = static_cast<float>(Philox4x32({id, step, 7, 7}, {1, 2})[0]) / 1e9f;
  }
  return logits;
}

std::vector<SampledToken> SampleSteps(Sampler& sampler, uint32_t begin, uint32_t end, uint32_t vocab = 64) {
  std::vector<SampledToken> tokens;
  for (uint32_t step = begin; step < end; ++step) tokens.push_back(Sample(sampler, StepLogits(step, vocab)));
  return tokens;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowerIdOfATie) {
  Sampler sampler = Make(Greedy(), 5);
  EXPECT_EQ(Sample(sampler, {1, 3, 2, 3, 0}).id, 1);
  EXPECT_EQ(Sample(sampler, {2, 2, 2, 2, 2}).id, 0);
  EXPECT_EQ(sampler.generated(), 2u);
}

TEST(Sampler, SMP_01_TinyTemperatureAndTopPEqualGreedy) {
  for (const auto& [temperature, top_p] : std::vector<std::pair<float, float>>{
           {0, 1}, {1e-9f, 1}, {1e-4f, 1}, {1, 0}, {1, 1e-4f}, {2, 0}, {0, 0}, {1e-9f, 1e-9f}}) {
    SamplingParams params = Random(3);
    params.temperature = temperature;
    params.top_p = top_p;
    Sampler sampler = Make(params, 6);
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(Sample(sampler, {-3e38f, 1.0f, 1.01f, 3e38f * 0, 1.01f, 1.0f}).id, 2) << temperature << " " << top_p;
    }
  }
}

TEST(Sampler, SMP_01_TopPOfOneFiltersNothing) {
  SamplingParams params = Random(9);
  params.temperature = 1;
  Sampler sampler = Make(params, 4);
  std::set<TokenId> drawn;
  for (int i = 0; i < 400; ++i) drawn.insert(Sample(sampler, {0, 0, 0, 0}).id);
  EXPECT_EQ(drawn.size(), 4u);
}

TEST(Sampler, SMP_02_TopKAboveTheVocabularyMeansAll) {
  SamplingParams all = Random(5);
  SamplingParams huge = all;
  huge.top_k = 9999999;
  Sampler a = Make(all, 5), b = Make(huge, 5);
  EXPECT_EQ(SampleSteps(a, 0, 50, 5), SampleSteps(b, 0, 50, 5));
}

TEST(Sampler, SMP_02_TopKOfOneIsGreedy) {
  SamplingParams one = Random(5);
  one.top_k = 1;
  Sampler a = Make(one, 5), b = Make(Greedy(), 5);
  EXPECT_EQ(SampleSteps(a, 0, 50, 5), SampleSteps(b, 0, 50, 5));
}

TEST(Sampler, SMP_03_NonFiniteLogitsAreNeverChosen) {
  for (const float bad : {kNan, -kNan, kInf, -kInf}) {
    for (const size_t place : {0, 3, 8}) {
      for (const SamplingParams& params : {Greedy(), Random(1)}) {
        Sampler sampler = Make(params, 9);
        for (int i = 0; i < 50; ++i) {
          std::vector<float> logits(9, 1.0f);
          logits[place] = bad;
          const SampledToken token = sampler.Sample(logits);
          ASSERT_NE(token.id, static_cast<TokenId>(place));
          ASSERT_TRUE(token.id >= 0 && token.id < 9);
          ASSERT_EQ(token.finish, FinishReason::kNone);
        }
      }
    }
  }
}

TEST(Sampler, SMP_03_ARowWithoutAPossibleIdIsAnError) {
  for (const float bad : {kNan, kInf, -kInf}) {
    for (const SamplingParams& params : {Greedy(), Random(1)}) {
      Sampler sampler = Make(params, 9);
      const SampledToken token = Sample(sampler, std::vector<float>(9, bad));
      EXPECT_EQ(token.finish, FinishReason::kError);
      EXPECT_EQ(sampler.generated(), 0u);
    }
  }
}

// Choices that share a prompt sample one row, one after the other.
TEST(Sampler, LeavesTheLogitsAsTheyWere) {
  SamplingParams params = Random(3);
  params.repetition_penalty = 1.7f;
  params.presence_penalty = 0.3f;
  params.logit_bias = {{4, 5.0f}, {9, -100.0f}};
  params.stop_token_ids = {4, 6};
  params.min_tokens = 1000;
  for (const bool logprobs : {false, true}) {
    if (logprobs) params.logprobs = 3;
    std::vector<float> logits = StepLogits(0, 64);
    logits[6] = -kInf;
    const std::vector<float> before = logits;
    Sampler one = Make(params, 64, {1, 4, 9}, {4, 4, 12}, 1), two = Make(params, 64, {1, 4, 9}, {4, 4, 12}, 1);
    const SampledToken first = one.Sample(logits);
    EXPECT_EQ(logits, before);
    EXPECT_EQ(two.Sample(logits), first);
  }
}

TEST(Sampler, TellsADeviceWhatItsRulesKnow) {
  SamplingParams params = Greedy();
  params.stop_token_ids = {9, 3, 9};
  params.eos_token_ids = {5};
  params.min_tokens = 3;
  params.max_tokens = 4;
  EXPECT_TRUE(Make(params, 64, {1, 2}, {7}).history().empty());  // no penalty asks for it
  params.frequency_penalty = 0.5f;
  EXPECT_THAT(Make(params, 64, {1, 2}, {7, 7}).history(), UnorderedElementsAre(Pair(7, 2u)));
  params.repetition_penalty = 1.1f;
  Sampler sampler = Make(params, 64, {1, 2, 1}, {7, 2}, 6);
  EXPECT_THAT(sampler.history(), UnorderedElementsAre(Pair(1, 0u), Pair(2, 1u), Pair(7, 1u)));
  EXPECT_THAT(sampler.masked(), ElementsAre(3, 5, 9));
  EXPECT_EQ(sampler.choice_index(), 6u);
  EXPECT_EQ(sampler.Record(7), FinishReason::kNone);
  EXPECT_THAT(sampler.history(), UnorderedElementsAre(Pair(1, 0u), Pair(2, 1u), Pair(7, 2u)));
  EXPECT_TRUE(sampler.masked().empty());
  EXPECT_EQ(sampler.Record(8), FinishReason::kLength);
  EXPECT_EQ(sampler.generated(), 4u);
  EXPECT_EQ(sampler.Record(9), FinishReason::kStop);
}

TEST(Sampler, ItsIdentityEndsWithIt) {
  auto sampler = std::make_optional(Make(Greedy(), 8));
  const std::weak_ptr<const void> identity = sampler->identity();
  std::optional<Sampler> moved = std::move(sampler);
  sampler.emplace(Make(Greedy(), 8));
  EXPECT_FALSE(identity.expired());
  EXPECT_NE(sampler->identity().lock(), identity.lock());
  moved.reset();
  EXPECT_TRUE(identity.expired());
}

TEST(Sampler, LogitsOfTheWrongLengthAreAnError) {
  Sampler sampler = Make(Greedy(), 9);
  EXPECT_EQ(Sample(sampler, {1, 2, 3}).finish, FinishReason::kError);
}

TEST(Sampler, HostileLogitsNeverLeaveTheVocabulary) {
  const std::vector<std::vector<float>> rows = {{3.4e38f, -3.4e38f, 0},
                                                {-3.4e38f, -3.4e38f, -3.4e38f},
                                                {1e-45f, -1e-45f, 0},
                                                {kNan, 5, kInf},
                                                {3.4e38f, 3.4e38f, kNan}};
  for (SamplingParams params : {Greedy(), Random(1)}) {
    params.logprobs = 3;
    params.repetition_penalty = 1e-30f;
    params.frequency_penalty = -2;
    params.logit_bias = {{0, 100}, {1, -100}};
    for (const float temperature : {params.temperature, 2.0f}) {
      params.temperature = temperature;
      Sampler sampler = Make(params, 3, {0, 1, 2});
      for (int i = 0; i < 20; ++i) {
        for (const auto& row : rows) {
          const SampledToken token = Sample(sampler, row);
          ASSERT_TRUE(token.id >= 0 && token.id < 3);
          ASSERT_FALSE(std::isnan(token.logprob));
        }
      }
    }
  }
}

TEST(Sampler, SMP_04_TheStreamDependsOnSeedChoiceAndIndexAlone) {
  Sampler a = Make(Random(42), 64), again = Make(Random(42), 64);
  const auto tokens = SampleSteps(a, 0, 32);
  EXPECT_EQ(SampleSteps(again, 0, 32), tokens);
  Sampler other_choice = Make(Random(42), 64, {0}, {}, 1), other_seed = Make(Random(43), 64);
  EXPECT_NE(SampleSteps(other_choice, 0, 32), tokens);
  EXPECT_NE(SampleSteps(other_seed, 0, 32), tokens);
  // The high half of the seed counts as well.
  Sampler high = Make(Random(42 + (uint64_t{1} << 40)), 64);
  EXPECT_NE(SampleSteps(high, 0, 32), tokens);
}

TEST(Sampler, SMP_04_ARebuiltSamplerContinuesIdentically) {
  SamplingParams params = Random(42);
  params.repetition_penalty = 1.3f;
  params.presence_penalty = 0.4f;
  params.frequency_penalty = 0.7f;
  params.top_k = 20;
  params.top_p = 0.9f;
  params.min_p = 0.01f;
  params.logprobs = 4;
  params.min_tokens = 20;
  params.max_tokens = 30;
  params.eos_token_ids = {3, 4, 5};
  params.logit_bias = {{3, 2.0f}};
  const std::vector<TokenId> prompt = {7, 8, 9};
  Sampler whole = Make(params, 64, prompt, {}, 2);
  const auto expected = SampleSteps(whole, 0, 30);
  std::vector<TokenId> generated;
  for (uint32_t cut = 0; cut < 30; ++cut) {
    Sampler rebuilt = Make(params, 64, prompt, generated, 2);
    const auto tail = SampleSteps(rebuilt, cut, 30);
    ASSERT_EQ(tail, std::vector<SampledToken>(expected.begin() + cut, expected.end())) << cut;
    generated.push_back(expected[cut].id);
  }
}

TEST(Sampler, SMP_06_RepetitionPenaltySeesPromptAndOutput) {
  // Vocabulary: 0 is a probe never seen before, A = 1 in the prompt, B = 2 not. A of +4 counts as 2, of -4 as -8.
  SamplingParams params = Greedy();
  params.repetition_penalty = 2;
  const auto wins = [&](std::vector<float> logits, std::vector<TokenId> generated = {}) {
    Sampler sampler = Make(params, 3, {1}, generated);
    return Sample(sampler, logits).id;
  };
  EXPECT_EQ(wins({1.99f, 4, -50}), 1);
  EXPECT_EQ(wins({2.01f, 4, -50}), 0);
  EXPECT_EQ(wins({-8.01f, -4, -50}), 1);
  EXPECT_EQ(wins({-7.99f, -4, -50}), 0);
  EXPECT_EQ(wins({3.9f, -50, 4}), 2);              // B is untouched at first
  EXPECT_EQ(wins({2.01f, -50, 4}, {2}), 0);        // and counts once it was generated, on another worker too
  EXPECT_EQ(wins({2.01f, -50, 4}, {2, 2, 2}), 0);  // once however often
  EXPECT_EQ(wins({1.99f, -50, 4}, {2, 2, 2}), 2);
}

TEST(Sampler, SMP_06_PresenceAndFrequencySeeOnlyTheOutput) {
  const auto wins = [](float presence, float frequency, std::vector<float> logits, std::vector<TokenId> generated) {
    SamplingParams params = Greedy();
    params.presence_penalty = presence;
    params.frequency_penalty = frequency;
    Sampler sampler = Make(params, 3, {1, 1, 1}, generated);
    return Sample(sampler, logits).id;
  };
  EXPECT_EQ(wins(2, 0, {3.99f, 4, -50}, {}), 1);
  EXPECT_EQ(wins(0, 2, {3.99f, 4, -50}, {}), 1);
  EXPECT_EQ(wins(2, 0, {1.99f, 4, -50}, {1, 1}), 1);
  EXPECT_EQ(wins(2, 0, {2.01f, 4, -50}, {1, 1}), 0);
  EXPECT_EQ(wins(0, 2, {-0.01f, 4, -50}, {1, 1}), 1);
  EXPECT_EQ(wins(0, 2, {0.01f, 4, -50}, {1, 1}), 0);
}

TEST(Sampler, SMP_06_PenaltiesApplyToWhatThisSamplerDrew) {
  SamplingParams params = Greedy();
  params.frequency_penalty = 1;
  Sampler sampler = Make(params, 2);
  std::vector<TokenId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(Sample(sampler, {2.5f, 1}).id);
  EXPECT_THAT(ids, ElementsAre(0, 0, 1, 0));
}

TEST(Sampler, SMP_07_IdsOutsideTheVocabularyTouchNothing) {
  SamplingParams params = Greedy();
  params.min_tokens = 5;
  params.repetition_penalty = 2;
  params.presence_penalty = 1;
  params.stop_token_ids = {-1, 3, 2147483647};
  params.eos_token_ids = {-1};
  params.logit_bias = {{-1, 100}, {3, 100}, {200000, 100}};
  Sampler sampler = Make(params, 3, {-5, 3, 900}, {-1, 70000});
  EXPECT_EQ(Sample(sampler, {1, 2, 3}).id, 2);
}

TEST(Sampler, SMP_08_MinTokensGivesThatManyOthersAndThenTheEnd) {
  for (const uint32_t min_tokens : {0u, 1u, 4u}) {
    for (const TokenId end : {2, 3, 4}) {  // two eos ids and a stop id of the caller
      SamplingParams params = Greedy();
      params.min_tokens = min_tokens;
      params.eos_token_ids = {2, 3};
      params.stop_token_ids = {4};
      params.logit_bias = {{end, 100.0f}};
      Sampler sampler = Make(params, 6, std::vector<TokenId>(1000, 2));
      uint32_t others = 0;
      SampledToken token;
      while ((token = Sample(sampler, {0.5f, 1, 2, 2, 2, 0})).finish == FinishReason::kNone) {
        EXPECT_EQ(token.id, 1);
        ++others;
      }
      EXPECT_EQ(others, min_tokens);
      EXPECT_EQ(token.id, end);
      EXPECT_EQ(token.finish, FinishReason::kStop);
      EXPECT_EQ(sampler.generated(), min_tokens + 1);
    }
  }
}

TEST(Sampler, SMP_08_TheMinimumCountsTokensMadeElsewhere) {
  SamplingParams params = Greedy();
  params.min_tokens = 2;
  params.eos_token_ids = {1};
  Sampler sampler = Make(params, 2, {0}, {0});
  EXPECT_EQ(Sample(sampler, {0, 5}).id, 0);
  EXPECT_EQ(Sample(sampler, {0, 5}).id, 1);
}

TEST(Sampler, SMP_08_IgnoreEosMasksNothing) {
  SamplingParams params = Greedy();
  params.ignore_eos = true;
  params.min_tokens = 4;
  params.eos_token_ids = {1};
  params.stop_token_ids = {0};
  Sampler sampler = Make(params, 3);
  const SampledToken token = Sample(sampler, {9, 5, 4});
  EXPECT_EQ(token.id, 1);  // an ordinary token now; the caller's own stop id is still held back
  EXPECT_EQ(token.finish, FinishReason::kNone);
}

TEST(Sampler, SMP_10_EveryEosIdStopsAndIgnoreEosRunsOnPastAll) {
  SamplingParams params = Greedy();
  params.max_tokens = 3;
  params.eos_token_ids = {1, 2};
  for (const TokenId end : {1, 2}) {
    std::vector<float> logits(4, 0.0f);
    logits[end] = 5;
    Sampler stops = Make(params, 4);
    EXPECT_EQ(Sample(stops, logits).finish, FinishReason::kStop);
    SamplingParams ignoring = params;
    ignoring.ignore_eos = true;
    Sampler runs = Make(ignoring, 4);
    EXPECT_EQ(Sample(runs, logits).finish, FinishReason::kNone);
    EXPECT_EQ(Sample(runs, logits).finish, FinishReason::kNone);
    EXPECT_EQ(Sample(runs, logits).finish, FinishReason::kLength);
  }
}

TEST(Sampler, AStopIdAsTheLastTokenIsAStop) {
  SamplingParams params = Greedy();
  params.max_tokens = 1;
  params.stop_token_ids = {0};
  Sampler sampler = Make(params, 2);
  EXPECT_EQ(Sample(sampler, {1, 0}).finish, FinishReason::kStop);
}

TEST(Sampler, LogprobsAreOfTheRawDistribution) {
  SamplingParams params = Greedy();
  params.logprobs = 3;
  params.logit_bias = {{0, -100}};
  params.repetition_penalty = 3;
  Sampler sampler = Make(params, 4, {3});
  const std::vector<float> logits = {5, 1, 4, 4};
  const SampledToken token = Sample(sampler, logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  EXPECT_EQ(token.id, 2);
  EXPECT_NEAR(token.logprob, 4 - std::log(sum), 1e-6);
  ASSERT_EQ(token.top.size(), 3u);
  EXPECT_EQ(token.top[0].id, 0);
  EXPECT_EQ(token.top[1].id, 2);  // a tie: the lower id first
  EXPECT_EQ(token.top[2].id, 3);
  EXPECT_NEAR(token.top[0].logprob, 5 - std::log(sum), 1e-6);
  EXPECT_EQ(token.top[1].logprob, token.top[2].logprob);
}

TEST(Sampler, LogprobsOfALargeVocabularyAgreeWithDoubleArithmetic) {
  constexpr uint32_t kVocab = 50000;
  SamplingParams params = Random(3);
  params.logprobs = 20;
  Sampler sampler = Make(params, kVocab);
  for (uint32_t step = 0; step < 3; ++step) {
    std::vector<float> logits = StepLogits(step, kVocab);
    for (float& logit : logits) logit *= 5;  // 0 to 21
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const SampledToken token = Sample(sampler, logits);
    EXPECT_NEAR(token.logprob, logits[token.id] - std::log(sum), 4e-6);
    std::vector<TokenId> order(kVocab);
    for (uint32_t id = 0; id < kVocab; ++id) order[id] = static_cast<TokenId>(id);
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
    ASSERT_EQ(token.top.size(), 20u);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(token.top[i].id, order[i]);
      EXPECT_NEAR(token.top[i].logprob, logits[order[i]] - std::log(sum), 4e-6);
    }
  }
}

TEST(Sampler, LogprobsSkipImpossibleIdsAndZeroAlternativesGiveTheTokenAlone) {
  SamplingParams params = Greedy();
  params.logprobs = 3;
  Sampler three = Make(params, 4);
  EXPECT_EQ(Sample(three, {kNan, 1, kInf, 0}).top.size(), 2u);
  params.logprobs = 0;
  Sampler none = Make(params, 4);
  const SampledToken token = Sample(none, {0, 0, 0, 0});
  EXPECT_TRUE(token.top.empty());
  EXPECT_NEAR(token.logprob, -std::log(4.0), 1e-6);
}

}  // namespace
}  // namespace baton
