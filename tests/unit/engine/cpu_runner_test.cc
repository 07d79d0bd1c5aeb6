// I6 on the CPU runner: a sequence's logits do not depend on anything but its own tokens, bit for bit.

#include "common/engine/cpu_runner.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/fakes/random_model.h"
#include "tests/kernels/random_floats.h"
#include "tests/kernels/targets.h"
#include "tests/unit/engine/runner_harness.h"

namespace baton {
namespace {

using Sequence = RunnerHarness::Sequence;

std::vector<TokenId> RandomTokens(size_t count, uint32_t seed, uint32_t vocab = 320) {
  std::mt19937 generator(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(generator() % vocab);
  return tokens;
}

std::shared_ptr<const CpuWeights> TinyWeights(const std::string& architecture = "Qwen2ForCausalLM",
                                              WeightsFormat format = WeightsFormat::kAuto) {
  return PackOrDie(*fakes::MakeRandomModel(fakes::TinyConfig(architecture), 1, DType::kBF16), format);
}

constexpr WeightsFormat kWordAndByteFormats[] = {WeightsFormat::kBF16, WeightsFormat::kInt8, WeightsFormat::kInt4};

void ExpectSame(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  ExpectSameBits(actual.data(), expected.data(), expected.size());
}

// Logits after the prompt and after each of `answer`'s tokens, alone on one thread.
std::vector<std::vector<float>> RunAlone(const std::shared_ptr<const CpuWeights>& weights, DType kv_dtype,
                                         const std::vector<TokenId>& prompt, const std::vector<TokenId>& answer) {
  RunnerHarness harness(weights, kv_dtype, 32, {.threads = 1});
  Sequence sequence;
  std::vector<std::vector<float>> logits = {harness.Append(sequence, prompt)};
  for (const TokenId token : answer) logits.push_back(harness.Append(sequence, {token}));
  return logits;
}

TEST(CpuRunner, AnyChunkingGivesTheSameBits) {
  for (const auto& [architecture, format] : {std::pair{"Qwen2ForCausalLM", WeightsFormat::kBF16},
                                             {"Qwen3ForCausalLM", WeightsFormat::kBF16},
                                             {"Qwen2ForCausalLM", WeightsFormat::kInt8},
                                             {"Qwen3ForCausalLM", WeightsFormat::kInt4}}) {
    for (const DType kv_dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8}) {
      const auto weights = TinyWeights(architecture, format);
      const std::vector<TokenId> prompt = RandomTokens(150, 1);
      const std::vector<float> whole = RunAlone(weights, kv_dtype, prompt, {})[0];
      RunnerHarness harness(weights, kv_dtype, 32);
      for (const size_t chunk : {1, 5, 16, 33, 64, 149}) {
        SCOPED_TRACE(chunk);
        Sequence sequence;
        ExpectSame(harness.Append(sequence, prompt, chunk), whole);
        harness.Release(sequence);
      }
    }
  }
}

class CpuRunnerFormat : public testing::TestWithParam<WeightsFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, CpuRunnerFormat, testing::ValuesIn(kWordAndByteFormats),
                         [](const auto& info) { return std::string(WeightsFormatName(info.param)); });

TEST_P(CpuRunnerFormat, NeighboursInTheBatchChangeNoBit) {
  const auto weights = TinyWeights("Qwen2ForCausalLM", GetParam());
  constexpr size_t kSequences = 17;
  std::vector<std::vector<TokenId>> prompts, answers;
  std::vector<std::vector<std::vector<float>>> alone;
  for (uint32_t i = 0; i < kSequences; ++i) {
    prompts.push_back(RandomTokens(1 + 7 * i, 100 + i));
    answers.push_back(RandomTokens(6, 200 + i));
    alone.push_back(RunAlone(weights, DType::kBF16, prompts[i], answers[i]));
  }
  for (const int threads : {1, 2, 3}) {
    RunnerHarness harness(weights, DType::kBF16, 128, {.threads = threads, .max_step_tokens = 1024});
    std::vector<Sequence> sequences(kSequences);
    // Sequence i enters at step i / 4, so steps mix prompts with decodes; answers are fed token by token.
    for (size_t step = 0; step < kSequences / 4 + 7; ++step) {
      std::vector<RunnerHarness::Part> parts;
      std::vector<std::pair<size_t, size_t>> expected;  // sequence, index into its answer
      for (size_t i = 0; i < kSequences; ++i) {
        if (step < i / 4 || step > i / 4 + answers[i].size()) continue;
        const size_t index = step - i / 4;
        parts.push_back({&sequences[i], index == 0 ? prompts[i] : std::vector{answers[i][index - 1]}, true});
        expected.emplace_back(i, index);
      }
      const auto logits = harness.Step(parts);
      for (size_t p = 0; p < parts.size(); ++p) {
        SCOPED_TRACE("sequence " + std::to_string(expected[p].first) + " step " + std::to_string(step));
        ExpectSame(logits[p], alone[expected[p].first][expected[p].second]);
      }
    }
  }
}

// A choice for every kind of parameters; `count` of them, each with a stream of its own.
std::vector<Sampler> Choices(uint32_t count, uint32_t vocab) {
  std::vector<Sampler> samplers;
  for (uint32_t i = 0; i < count; ++i) {
    SamplingParams params{.max_tokens = 1000, .temperature = i % 3 == 0 ? 0.0f : 0.9f, .seed = i / 2};
    params.top_p = i % 4 == 1 ? 0.8f : 1.0f;
    params.top_k = i % 5 == 2 ? 7 : 0;
    params.min_p = i % 5 == 3 ? 0.1f : 0.0f;
    params.repetition_penalty = i % 2 == 0 ? 1.0f : 1.3f;
    params.logit_bias = {{static_cast<TokenId>(i), 2.0f}};
    if (i % 3 != 1) params.logprobs = i % 4;
    samplers.emplace_back(params, i % 2, vocab, std::vector<TokenId>{1, 2, 3}, std::vector<TokenId>());
  }
  return samplers;
}

TEST(CpuRunner, StepsSampleFromTheirLogitsWhateverTheThreads) {
  const auto weights = TinyWeights();
  constexpr uint32_t kSequences = 9, kChoices = 12, kSteps = 4;  // four choices share the first sequence's row
  const auto choice_of = [](uint32_t sequence) { return sequence == 0 ? 0 : sequence + 3; };
  std::vector<std::vector<SampledToken>> expected;
  for (const int threads : {1, 2, 3}) {
    RunnerHarness harness(weights, DType::kBF16, 64, {.threads = threads});
    std::vector<Sampler> samplers = Choices(kChoices, weights->config.vocab),
                         apart = Choices(kChoices, weights->config.vocab);
    std::vector<Sequence> sequences(kSequences);
    for (uint32_t step = 0; step < kSteps; ++step) {
      std::vector<StepSample> samples(kChoices);
      std::vector<RunnerHarness::Part> parts;
      for (uint32_t i = 0; i < kChoices; ++i) samples[i].sampler = &samplers[i];
      for (uint32_t i = 0; i < kSequences; ++i) {
        parts.push_back({&sequences[i], RandomTokens(step == 0 ? 5 + i : 1, 10 * step + i), i % 2 == 0,
                         std::span(samples).subspan(choice_of(i), i == 0 ? 4 : 1)});
      }
      std::vector<std::vector<float>> logits = harness.Step(parts);
      std::vector<SampledToken> tokens;
      for (const StepSample& sample : samples) tokens.push_back(sample.token);
      for (uint32_t i = 0; i < kSequences; ++i) {
        EXPECT_EQ(logits[i].empty(), i % 2 == 1);
        if (logits[i].empty()) continue;
        for (uint32_t choice = choice_of(i); choice < choice_of(i + 1); ++choice) {
          EXPECT_EQ(apart[choice].Sample(logits[i]), tokens[choice]) << step << " " << choice;
        }
      }
      if (threads == 1) {
        expected.push_back(tokens);
      } else {
        EXPECT_EQ(tokens, expected[step]) << threads << " " << step;
      }
    }
  }
}

TEST(CpuRunner, EverySimdTargetAndWeightsFormatGivesTheSameBits) {
  for (const WeightsFormat format : kWeightsFormats) {
    const auto weights = PackOrDie(*fakes::MakeRandomModel(fakes::TinyConfig(), 3, DType::kF32), format);
    const std::vector<TokenId> prompt = RandomTokens(40, 2), answer = RandomTokens(3, 3);
    const auto expected = RunAlone(weights, DType::kF16, prompt, answer);
    ForEveryTarget([&] {
      const auto logits = RunAlone(weights, DType::kF16, prompt, answer);
      for (size_t i = 0; i < expected.size(); ++i) ExpectSame(logits[i], expected[i]);
    });
  }
}

TEST_P(CpuRunnerFormat, KvBlocksAreTheSameBytesHoweverThePromptWasRun) {
  const auto weights = TinyWeights("Qwen2ForCausalLM", GetParam());
  const std::vector<TokenId> prompt = RandomTokens(48, 4);
  RunnerHarness whole(weights, DType::kBF16, 8), pieces(weights, DType::kBF16, 8);
  Sequence a, b;
  whole.Append(a, prompt);
  pieces.Append(b, prompt, 11);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::memcmp(whole.block(a.blocks[i]), pieces.block(b.blocks[i]), whole.layout().BytesPerBlock()), 0);
  }
}

TEST_P(CpuRunnerFormat, ASequenceRunsOnBlocksThatWereMovedFromAnotherPool) {
  const auto weights = TinyWeights("Qwen2ForCausalLM", GetParam());
  const std::vector<TokenId> prompt = RandomTokens(37, 5);
  RunnerHarness prefill(weights, DType::kF16, 4), decode(weights, DType::kF16, 4);
  Sequence from, to;
  prefill.Append(from, prompt);
  decode.Append(to, RandomTokens(37, 6));  // other content, to be overwritten
  for (size_t i = 0; i < from.blocks.size(); ++i) {
    std::memcpy(const_cast<std::byte*>(decode.block(to.blocks[i])), prefill.block(from.blocks[i]),
                decode.layout().BytesPerBlock());
  }
  ExpectSame(decode.Append(to, {7}), prefill.Append(from, {7}));
}

TEST(CpuRunner, LogitsAreGivenOnlyWhereWanted) {
  RunnerHarness harness(TinyWeights(), DType::kF32, 8);
  Sequence a, b, c;
  const auto logits =
      harness.Step({{&a, RandomTokens(3, 1), false}, {&b, RandomTokens(2, 2), true}, {&c, RandomTokens(1, 3), false}});
  EXPECT_TRUE(logits[0].empty());
  EXPECT_EQ(logits[1].size(), 320u);
  EXPECT_TRUE(logits[2].empty());
}

TEST(CpuRunner, CopiedBlocksContinueAlike) {
  RunnerHarness harness(TinyWeights(), DType::kBF16, 8);
  Sequence sequence, fork;
  harness.Append(sequence, RandomTokens(20, 1));
  harness.Append(fork, RandomTokens(20, 2));
  for (size_t i = 0; i < 2; ++i) harness.runner().CopyBlock(sequence.blocks[i], fork.blocks[i]);
  ExpectSame(harness.Append(fork, {9}), harness.Append(sequence, {9}));
}

TEST(CpuRunner, TheThreadsMeetAtMostFourTimesALayer) {
  const auto weights = TinyWeights();
  RunnerHarness harness(weights, DType::kBF16, 32, {.threads = 2});
  Sequence prompt, decode;
  harness.Append(decode, RandomTokens(20, 1));
  for (const size_t tokens : {1, 3, 40}) {
    const uint64_t before = harness.runner().thread_runs();
    harness.Step({{&prompt, RandomTokens(tokens, 2)}, {&decode, RandomTokens(1, 3)}});
    // Beside the layers: the embedding and the logits.
    EXPECT_LE(harness.runner().thread_runs() - before, 4u * weights->config.layers + 2);
  }
}

class RefusedStep : public testing::Test {
 protected:
  void ExpectRefused(std::vector<StepSequence> batch, const std::string& part) {
    std::vector<std::span<float>> logits(batch.size());
    const absl::Status status = harness_.runner().Step(batch, logits);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(StatusMessage(status).find(part), std::string::npos) << StatusMessage(status);
  }

  RunnerHarness harness_{TinyWeights(), DType::kF32, 40, {.max_step_tokens = 600, .max_batch = 2}};
  const std::vector<BlockId> blocks_ = {0, 1, 2, 3};
};

TEST_F(RefusedStep, NamesTokensOutsideTheVocabulary) {
  const std::vector<TokenId> high = {1, 320}, negative = {-1};
  ExpectRefused({{high, 0, blocks_}}, "token 320, the vocabulary has 320");
  ExpectRefused({{negative, 0, blocks_}}, "token -1");
}

TEST_F(RefusedStep, NamesBlocksThatAreMissingOrOutsideThePool) {
  const std::vector<TokenId> tokens(17, 1);
  const std::vector<BlockId> one = {0}, outside = {0, 40};
  ExpectRefused({{tokens, 0, one}}, "needs 2 blocks for 17 positions, it has 1");
  ExpectRefused({{tokens, 0, outside}}, "block 40, the pool has 40");
}

TEST_F(RefusedStep, NamesPositionsBeyondTheModel) {
  const std::vector<TokenId> tokens = {1};
  ExpectRefused({{tokens, 512, blocks_}}, "reaches 513 positions, the model takes 512");
  ExpectRefused({{tokens, UINT32_MAX, blocks_}}, "reaches 4294967296 positions");
}

TEST_F(RefusedStep, NamesBatchesThatAreTooLarge) {
  const std::vector<TokenId> one = {1}, many(301, 1), none;
  std::vector<BlockId> table(19);
  ExpectRefused({{one, 0, blocks_}, {one, 0, blocks_}, {one, 0, blocks_}}, "batch of 3 sequences");
  ExpectRefused({{many, 0, table}, {many, 0, table}}, "batch of 602 tokens, a step takes 600");
  ExpectRefused({{none, 0, blocks_}}, "has no tokens");
}

TEST(CpuRunner, NumericsHashIsThatOfWeightsAndFormatNotOfThreads) {
  const auto model = fakes::MakeRandomModel(fakes::TinyConfig(), 1, DType::kF32);
  const auto hash = [](const std::shared_ptr<const CpuWeights>& weights, int threads) {
    return RunnerHarness(weights, DType::kF32, 1, {.threads = threads}).runner().numerics_hash();
  };
  const NumericsHash f32 = hash(PackOrDie(*model), 1);
  EXPECT_EQ(hash(PackOrDie(*model), 2), f32);
  std::set<uint64_t> hashes;
  for (const WeightsFormat format : kWeightsFormats) hashes.insert(hash(PackOrDie(*model, format), 1).value);
  EXPECT_EQ(hashes.size(), std::size(kWeightsFormats));
  EXPECT_NE(hash(PackOrDie(*fakes::MakeRandomModel(fakes::TinyConfig(), 2, DType::kF32)), 1), f32);
}

TEST(CpuRunner, RefusesALayoutOfAnotherModel) {
  const auto weights = TinyWeights();
  KvLayout layout = MakeKvLayout(weights->config, DType::kF32);
  AlignedBuffer pool(2 * layout.BytesPerBlock());
  layout.kv_heads = 1;
  const auto runner = CpuRunner::Create(weights, layout, {pool.data(), pool.size()}, {});
  ASSERT_FALSE(runner.ok());
  EXPECT_EQ(StatusMessage(runner.status()), "KV layout has 2 layers, 1 heads of 16; the model has 2, 2 of 16");
}

TEST(CpuRunner, ActivationBytesAreWhatARunnerTakes) {
  const auto weights = TinyWeights();
  const KvLayout layout = MakeKvLayout(weights->config, DType::kF32);
  AlignedBuffer pool(2 * layout.BytesPerBlock());
  const CpuRunnerOptions options{.threads = 2, .max_step_tokens = 60000, .max_batch = 4096};
  const auto allocated = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const size_t before = allocated();
  const auto runner = CpuRunner::Create(weights, layout, {pool.data(), pool.size()}, options);
  ASSERT_TRUE(runner.ok());
  const size_t taken = allocated() - before;
  if (taken == 0) GTEST_SKIP() << "a sanitizer's allocator does not count";
  const uint64_t expected = CpuRunner::ActivationBytes(weights->config, options);
  EXPECT_GE(taken, expected);
  EXPECT_LE(taken, expected + 14 * (uint64_t{4} << 20));  // each of 14 buffers lies on whole huge pages
}

TEST(CpuRunner, BlocksThatWereSwappedOutAndInElsewhereGiveTheSameBits) {
  for (const DType kv_dtype : {DType::kF32, DType::kBF16}) {
    const auto weights = TinyWeights();
    const std::vector<TokenId> prompt = RandomTokens(50, 1), answer = RandomTokens(3, 2), other = RandomTokens(64, 3);
    const auto alone = RunAlone(weights, kv_dtype, prompt, answer);
    RunnerHarness harness(weights, kv_dtype, 8, {.swap_slots = 5});
    EXPECT_EQ(harness.runner().swap_slots(), 5u);
    Sequence sequence;
    harness.Append(sequence, prompt);
    const std::vector<BlockId> before = sequence.blocks;
    for (uint32_t i = 0; i < before.size(); ++i) harness.runner().SwapOut(before[i], 4 - i);
    harness.Release(sequence);
    Sequence neighbour;
    harness.Append(neighbour, other);  // overwrites them
    harness.Release(neighbour);
    Sequence back;
    harness.Append(back, RandomTokens(50, 4));  // takes blocks, in another order
    for (uint32_t i = 0; i < before.size(); ++i) harness.runner().SwapIn(4 - i, back.blocks[before.size() - 1 - i]);
    std::reverse(back.blocks.begin(), back.blocks.end());
    for (size_t i = 0; i < answer.size(); ++i) ExpectSame(harness.Append(back, {answer[i]}), alone[i + 1]);
  }
}

TEST(CpuRunner, CountsTheWorkOfAStep) {
  RunnerHarness harness(TinyWeights(), DType::kBF16, 8);
  Sequence sequence;
  harness.Append(sequence, RandomTokens(3, 1));
  const Runner::StepWork work = harness.runner().last_work();
  constexpr uint64_t kQkv = (64 + 2 * 32) * 64, kRest = 64 * 64 + 3 * 128 * 64, kHead = 320 * 64;
  // The last layer finishes the last row only; three rows see 1, 2 and 3 positions.
  EXPECT_EQ(work.flops, 2 * (3 * 2 * kQkv + (3 + 1) * kRest + kHead) + 4 * (6 + 3) * 64);
  EXPECT_EQ(work.bytes, 2 * (2 * (kQkv + kRest) + kHead) + 2 * 3 * harness.layout().BytesPerToken());
}

TEST(CpuWeights, ReportsProgressToTheEnd) {
  const auto model = fakes::MakeRandomModel(fakes::TinyConfig("LlamaForCausalLM"), 1, DType::kBF16);
  uint64_t last = 0, total = 0;
  const auto weights = PackCpuWeights(*model, WeightsFormat::kAuto, 1, [&](uint64_t done, uint64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  });
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(last, total);
  EXPECT_GT(total, 0u);
}

}  // namespace
}  // namespace baton
