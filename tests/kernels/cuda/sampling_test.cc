// The device draws the token that common/sampling draws from the same logits, whatever the rules.

#include "kernels/cuda/sampling.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "common/sampling/sampler.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/kernels/cuda/thread_orders.h"
#include "tests/kernels/random_floats.h"

namespace baton {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Choice {
  SamplingParams params;
  std::vector<TokenId> prompt;
  std::vector<TokenId> generated;
  std::vector<float> logits;
};

class CudaSampling : public CudaTest {
 protected:
  std::vector<cuda::SampledRow> Sampled(const std::vector<Choice>& choices) {
    const auto vocab = static_cast<int32_t>(choices[0].logits.size());
    std::vector<cuda::SampleRow> rows;
    std::vector<cuda::TokenRule> rules;
    std::vector<float> logits;
    for (const Choice& choice : choices) {
      const SamplingParams& params = choice.params;
      cuda::SampleRow row{.seed = params.seed,
                          .choice_index = static_cast<uint32_t>(rows.size()),
                          .token_index = static_cast<uint32_t>(choice.generated.size()),
                          .temperature = params.temperature,
                          .top_p = params.top_p,
                          .min_p = params.min_p,
                          .top_k = params.top_k,
                          .repetition_penalty = params.repetition_penalty,
                          .presence_penalty = params.presence_penalty,
                          .frequency_penalty = params.frequency_penalty,
                          .top = params.logprobs ? static_cast<int32_t>(*params.logprobs) : -1,
                          .first_rule = static_cast<int32_t>(rules.size())};
      std::map<TokenId, cuda::TokenRule> of_token;
      for (const auto& [id, bias] : params.logit_bias) of_token[id].bias += bias;
      for (const auto* tokens : {&choice.prompt, &choice.generated}) {
        for (const TokenId id : *tokens) of_token[id].seen = params.repetition_penalty != 1.0f ? 1 : 0;
      }
      for (const TokenId id : choice.generated) ++of_token[id].count;
      if (choice.generated.size() < params.min_tokens) {
        for (const TokenId id : params.stop_token_ids) of_token[id].masked = 1;
      }
      for (auto& [id, rule] : of_token) {
        rule.id = id;
        rules.push_back(rule);
      }
      row.rules = static_cast<int32_t>(of_token.size());
      rows.push_back(row);
      logits.insert(logits.end(), choice.logits.begin(), choice.logits.end());
      logits.resize(logits.size() + 3, kInfinity);  // rows have a stride
    }
    rules.push_back({});  // never an empty list
    const auto count = static_cast<int64_t>(rows.size());
    auto* results = NewDevice<cuda::SampledRow>(rows.size());
    Expect(cuda::Sample(ToDevice(logits), vocab + 3, vocab, ToDevice(rows), ToDevice(rules), count,
                        NewDevice<float>(rows.size() * vocab), results, stream()));
    return ToHost(results, rows.size());
  }

  void ExpectTheCpusTokens(const std::vector<Choice>& choices) {
    const std::vector<cuda::SampledRow> actual = Sampled(choices);
    for (size_t i = 0; i < choices.size(); ++i) {
      SCOPED_TRACE(i);
      const Choice& choice = choices[i];
      Sampler sampler(choice.params, static_cast<uint32_t>(i), static_cast<uint32_t>(choice.logits.size()),
                      choice.prompt, choice.generated);
      std::vector<float> scratch = choice.logits;
      const SampledToken expected = sampler.Sample(scratch);
      if (expected.finish == FinishReason::kError) {
        EXPECT_EQ(actual[i].id, -1);
        continue;
      }
      EXPECT_EQ(actual[i].id, expected.id);
      EXPECT_EQ(actual[i].logprob, expected.logprob);
      ASSERT_EQ(actual[i].top_count, static_cast<int32_t>(expected.top.size()));
      for (size_t j = 0; j < expected.top.size(); ++j) {
        EXPECT_EQ(actual[i].top_ids[j], expected.top[j].id);
        EXPECT_EQ(actual[i].top_logprobs[j], expected.top[j].logprob);
      }
    }
  }
};

SamplingParams With(float temperature, uint32_t top_k, float top_p, float min_p, uint64_t seed) {
  return {.max_tokens = 1000, .temperature = temperature, .top_p = top_p, .top_k = top_k, .min_p = min_p, .seed = seed};
}

TEST_F(CudaSampling, EveryFilterKeepsWhatTheCpuKeeps) {
  for (const size_t vocab : {5, 1000, 3001}) {
    std::vector<Choice> choices;
    uint64_t seed = 1;
    for (const float temperature : {0.0f, 0.3f, 1.0f, 2.0f}) {
      for (const uint32_t top_k : {0u, 1u, 2u, 40u, 5000u}) {
        for (const float top_p : {1.0f, 0.9f, 0.3f, 0.0f}) {
          const float min_p = seed % 3 == 0 ? 0.05f : 0.0f;
          choices.push_back({.params = With(temperature, top_k, top_p, min_p, seed * 0x123456789ab),
                             .logits = RandomFloats(vocab, static_cast<uint32_t>(seed), 6.0f)});
          ++seed;
        }
      }
    }
    ExpectTheCpusTokens(choices);
  }
}

TEST_F(CudaSampling, TiesGoToTheLowerId) {
  std::vector<Choice> choices;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Choice choice{.params = With(1.0f, seed % 4 == 0 ? 3 : 0, seed % 2 == 0 ? 0.5f : 1.0f, 0, seed),
                  .logits = std::vector<float>(700)};
    for (size_t id = 0; id < choice.logits.size(); ++id) choice.logits[id] = static_cast<float>(id % 3) - 1.0f;
    choice.logits[5] = -0.0f;
    if (seed % 5 == 0) choice.params.temperature = 0;
    choice.params.logprobs = seed % 6;
    choices.push_back(choice);
  }
  ExpectTheCpusTokens(choices);
}

TEST_F(CudaSampling, RulesAreAppliedInTheCpusOrder) {
  std::mt19937 random(7);
  std::vector<Choice> choices;
  for (uint32_t i = 0; i < 20; ++i) {
    Choice choice{.params = With(i % 2 == 0 ? 0.0f : 0.8f, 0, 0.95f, 0, i), .logits = RandomFloats(500, i, 5.0f)};
    choice.params.repetition_penalty = i % 3 == 0 ? 1.0f : 1.3f;
    choice.params.presence_penalty = i % 4 == 0 ? 0.0f : 0.7f;
    choice.params.frequency_penalty = i % 5 == 0 ? -0.5f : 0.4f;
    for (int n = 0; n < 30; ++n) choice.prompt.push_back(static_cast<TokenId>(random() % 500));
    for (int n = 0; n < 20; ++n) choice.generated.push_back(static_cast<TokenId>(random() % 60));
    for (TokenId id = 0; id < 40; ++id) choice.params.logit_bias.push_back({id * 7, static_cast<float>(id) - 20.0f});
    choice.params.stop_token_ids = {3, 70, 140};
    choice.params.min_tokens = i % 2 == 0 ? 30 : 0;
    choice.params.logprobs = 4;
    choices.push_back(choice);
  }
  ForEveryOrder([&] { ExpectTheCpusTokens(choices); });
}

TEST_F(CudaSampling, ImpossibleLogitsAreNeverDrawn) {
  std::vector<Choice> choices;
  for (const float temperature : {0.0f, 1.0f}) {
    Choice one{.params = With(temperature, 0, 1, 0, 3), .logits = std::vector<float>(300, std::nanf(""))};
    one.params.logprobs = 5;
    choices.push_back(one);
    one.logits.assign(300, kInfinity);
    choices.push_back(one);
    one.logits[123] = -1e30f;
    choices.push_back(one);
    one.logits[299] = -1e30f;
    choices.push_back(one);
    one.params.stop_token_ids = {123, 299};
    one.params.min_tokens = 1;
    choices.push_back(one);
  }
  ExpectTheCpusTokens(choices);
}

TEST_F(CudaSampling, DrawsFollowTheSeedTheChoiceAndTheIndex) {
  std::vector<Choice> choices;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    choices.push_back({.params = With(1.5f, 0, 1, 0, seed / 4 << 32 | seed / 4),
                       .generated = std::vector<TokenId>(seed % 2, 1),
                       .logits = RandomFloats(400, 1, 1.0f)});
  }
  ExpectTheCpusTokens(choices);
  std::set<TokenId> different;
  for (const cuda::SampledRow& row : Sampled(choices)) different.insert(row.id);
  EXPECT_GT(different.size(), 25u);
}

}  // namespace
}  // namespace baton
