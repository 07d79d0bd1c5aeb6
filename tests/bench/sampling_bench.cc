// Time to choose one token from the logits of a vocabulary of 151,936.

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "common/sampling/sampler.h"

namespace baton {
namespace {

// args: temperature in percent, top_k, top_p in percent, logprobs
void BM_Sample(benchmark::State& state) {
  constexpr uint32_t kVocabulary = 151'936;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> logits(kVocabulary);
  for (float& logit : logits) logit = normal(random);
  logits[77] = 17.0f;
  SamplingParams params;
  params.temperature = static_cast<float>(state.range(0)) / 100;
  params.top_k = static_cast<uint32_t>(state.range(1));
  params.top_p = static_cast<float>(state.range(2)) / 100;
  if (state.range(3) != 0) params.logprobs = 5;
  Sampler sampler(params, 0, kVocabulary, {}, {});
  for (auto _ : state) benchmark::DoNotOptimize(sampler.Sample(logits));
}
BENCHMARK(BM_Sample)
    ->ArgNames({"temperature%", "top_k", "top_p%", "logprobs"})
    ->Args({0, 0, 100, 0})
    ->Args({100, 0, 100, 0})
    ->Args({70, 40, 100, 0})
    ->Args({70, 40, 90, 0})
    ->Args({70, 0, 90, 0})
    ->Args({150, 0, 99, 0})
    ->Args({70, 40, 90, 1});

}  // namespace
}  // namespace baton

BENCHMARK_MAIN();
