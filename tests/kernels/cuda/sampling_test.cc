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

bool Penalizes(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0 || params.frequency_penalty != 0;
}

class CudaSampling : public CudaTest {
 protected:
  struct Result {
    cuda::SampledRow row;
    std::vector<cuda::TopToken> tops;
  };

  std::vector<Result> Sampled(const std::vector<Choice>& choices) {
    const auto vocab = static_cast<int32_t>(choices[0].logits.size());
    const auto count = static_cast<int64_t>(choices.size());
    // Never empty lists.
    std::vector<cuda::SampleRow> rows;
    std::vector<cuda::LogitBias> biases(1);
    std::vector<TokenId> masked(1);
    std::vector<cuda::HistoryStart> starts;
    std::vector<cuda::SeenToken> seen(1);
    std::vector<float> logits;
    for (const Choice& choice : choices) {
      const SamplingParams& params = choice.params;
      // Choices have rows of logits and histories in an order of their own.
      const auto index = static_cast<int32_t>(count - 1 - static_cast<int64_t>(rows.size()));
      cuda::SampleRow row{.logits = static_cast<int32_t>(rows.size()),
                          .history = Penalizes(params) ? index : -1,
                          .seed = params.seed,
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
                          .first_bias = static_cast<int32_t>(biases.size()),
                          .biases = static_cast<int32_t>(params.logit_bias.size()),
                          .first_masked = static_cast<int32_t>(masked.size())};
      for (const auto& [id, bias] : params.logit_bias) biases.push_back({id, bias});
      if (choice.generated.size() < params.min_tokens) {
        masked.insert(masked.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
      }
      row.masked = static_cast<int32_t>(masked.size()) - row.first_masked;
      if (row.history >= 0) {
        std::map<TokenId, uint32_t> words;
        for (const TokenId id : choice.prompt) {
          if (params.repetition_penalty != 1.0f) words[id] = cuda::kSeen;
        }
        for (const TokenId id : choice.generated) words[id] = (words[id] | cuda::kSeen) + 1;
        starts.push_back({row.history, static_cast<int32_t>(seen.size()), static_cast<int32_t>(words.size())});
        for (const auto& [id, word] : words) seen.push_back({id, word});
      }
      rows.push_back(row);
      logits.insert(logits.end(), choice.logits.begin(), choice.logits.end());
      logits.resize(logits.size() + 3, kInfinity);  // rows have a stride
    }
    auto* histories = NewDevice<uint32_t>(rows.size() * vocab);
    const size_t started = starts.size();
    starts.push_back({});
    Expect(cuda::StartHistories(ToDevice(starts), static_cast<int64_t>(started), ToDevice(seen), vocab, histories,
                                stream()));
    const cuda::SampleInputs inputs{.logits = ToDevice(logits),
                                    .stride = vocab + 3,
                                    .vocab = vocab,
                                    .biases = ToDevice(biases),
                                    .masked = ToDevice(masked),
                                    .histories = histories};
    auto* results = NewDevice<cuda::SampledRow>(rows.size());
    auto* tops = NewDevice<cuda::TopToken>(rows.size() * cuda::kMaxTopTokens);
    Expect(cuda::Sample(inputs, ToDevice(rows), count, NewDevice<float>(rows.size() * vocab), results, tops, stream()));
    const std::vector<cuda::SampledRow> sampled = ToHost(results, rows.size());
    const std::vector<cuda::TopToken> all_tops = ToHost(tops, rows.size() * cuda::kMaxTopTokens);
    const std::vector<uint32_t> after = ToHost(histories, rows.size() * vocab);
    std::vector<Result> out;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto first = all_tops.begin() + static_cast<std::ptrdiff_t>(i) * cuda::kMaxTopTokens;
      out.push_back({sampled[i], {first, first + sampled[i].top_count}});
      if (rows[i].history >= 0) ExpectRecorded(choices[i], sampled[i].id, &after[size_t(rows[i].history) * vocab]);
    }
    return out;
  }

  // The device keeps count of what it draws.
  static void ExpectRecorded(const Choice& choice, TokenId drawn, const uint32_t* history) {
    Sampler sampler(choice.params, 0, static_cast<uint32_t>(choice.logits.size()), choice.prompt, choice.generated);
    if (drawn >= 0) sampler.Record(drawn);
    for (size_t id = 0; id < choice.logits.size(); ++id) {
      const auto entry = sampler.history().find(static_cast<TokenId>(id));
      ASSERT_EQ(history[id], entry == sampler.history().end() ? 0 : cuda::kSeen | entry->second) << id;
    }
  }

  void ExpectTheCpusTokens(const std::vector<Choice>& choices) {
    const std::vector<Result> actual = Sampled(choices);
    for (size_t i = 0; i < choices.size(); ++i) {
      SCOPED_TRACE(i);
      const Choice& choice = choices[i];
      Sampler sampler(choice.params, static_cast<uint32_t>(i), static_cast<uint32_t>(choice.logits.size()),
                      choice.prompt, choice.generated);
      std::vector<float> scratch = choice.logits;
      const SampledToken expected = sampler.Sample(scratch);
      if (expected.finish == FinishReason::kError) {
        EXPECT_EQ(actual[i].row.id, -1);
        continue;
      }
      EXPECT_EQ(actual[i].row.id, expected.id);
      EXPECT_EQ(actual[i].row.logprob, expected.logprob);
      ASSERT_EQ(actual[i].tops.size(), expected.top.size());
      for (size_t j = 0; j < expected.top.size(); ++j) {
        EXPECT_EQ(actual[i].tops[j].id, expected.top[j].id);
        EXPECT_EQ(actual[i].tops[j].logprob, expected.top[j].logprob);
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
  std::mt19937 random(7 + TestSeed());
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
  for (const Result& result : Sampled(choices)) different.insert(result.row.id);
  EXPECT_GT(different.size(), 25u);
}

}  // namespace
}  // namespace baton
