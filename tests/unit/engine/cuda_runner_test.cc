// The CUDA engine against the CPU's, on the host stand-in and, linked against CUDA, on a device.

#include "common/engine/cuda_runner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string>

#include "common/model/model.h"
#include "tests/fakes/random_model.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/unit/engine/cuda_harness.h"
#include "tests/unit/engine/runner_harness.h"

namespace baton {
namespace {

using testing::HasSubstr;

model::ModelConfig ConfigWithHeads(uint32_t head_dim, const std::string& architecture = "Qwen2ForCausalLM") {
  model::ModelConfig config = fakes::TinyConfig(architecture);
  config.head_dim = head_dim;
  return config;
}

using CudaRunnerTest = CudaTest;

TEST_F(CudaRunnerTest, ComputesTheCpusLogitsForEveryArchitecture) {
  for (const std::string architecture :
       {"Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const uint32_t head_dim : {16u, 64u}) {
        if (head_dim == 16 && dtype != DType::kF32) continue;
        SCOPED_TRACE(architecture + " " + std::string(DTypeName(dtype)) + " " + std::to_string(head_dim));
        const auto model = fakes::MakeRandomModel(ConfigWithHeads(head_dim, architecture), 1 + TestSeed(), dtype);
        RunnerHarness cpu(PackOrDie(*model), dtype, 64);
        CudaHarness cuda(*model, dtype, device_stream(), {.max_step_tokens = 128, .max_batch = 4});
        const float allowed = dtype == DType::kF32 ? 1e-5f : dtype == DType::kF16 ? 4e-3f : 3e-2f;
        RunnerHarness::Sequence on_cpu[2];
        CudaHarness::Sequence on_cuda[2];
        const std::vector<TokenId> prompt = RandomTokens(90, model->config.vocab, 3);
        ExpectAlike(cuda.Append(on_cuda[0], prompt), cpu.Append(on_cpu[0], prompt), allowed);
        // One decodes while the other's prompt is read in two chunks.
        for (const bool last : {false, true}) {
          const std::vector<TokenId> chunk = RandomTokens(30, model->config.vocab, last ? 4 : 5);
          const auto actual = cuda.Step({{&on_cuda[1], chunk, last}, {&on_cuda[0], {7}, true}});
          const auto expected = cpu.Step({{&on_cpu[1], chunk, last}, {&on_cpu[0], {7}, true}});
          ExpectAlike(actual[1], expected[1], allowed);
          EXPECT_EQ(actual[0].empty(), !last);
          if (last) ExpectAlike(actual[0], expected[0], allowed);
        }
        const auto actual = cuda.Step({{&on_cuda[0], {9}}, {&on_cuda[1], {11}}});
        const auto expected = cpu.Step({{&on_cpu[0], {9}}, {&on_cpu[1], {11}}});
        for (int i = 0; i < 2; ++i) ExpectAlike(actual[i], expected[i], allowed);
      }
    }
  }
}

TEST_F(CudaRunnerTest, GraphsOfPaddedBatchesGiveTheBitsOfEagerSteps) {
  const auto model = fakes::MakeRandomModel(ConfigWithHeads(64), 2 + TestSeed());
  CudaHarness eager(*model, DType::kBF16, device_stream(), {.max_batch = 5, .graphs = false, .deterministic = true});
  CudaHarness graphs(*model, DType::kBF16, device_stream(), {.max_batch = 5, .graphs = true, .deterministic = true});
  for (const size_t sequences : {1, 3, 5}) {
    std::vector<CudaHarness::Sequence> of_eager(sequences), of_graphs(sequences);
    for (int step = 0; step < 18; ++step) {
      std::vector<CudaHarness::Part> eager_parts, graph_parts;
      for (size_t i = 0; i < sequences; ++i) {
        const TokenId token = static_cast<TokenId>((7 * step + 31 * i) % 300);
        eager_parts.push_back({&of_eager[i], {token}});
        graph_parts.push_back({&of_graphs[i], {token}});
      }
      EXPECT_EQ(graphs.Step(graph_parts), eager.Step(eager_parts)) << sequences << " " << step;
    }
  }
}

TEST_F(CudaRunnerTest, DeterministicRowsDependOnTheirOwnTokensAlone) {
  const auto model = fakes::MakeRandomModel(ConfigWithHeads(64), 3 + TestSeed());
  CudaHarness cuda(*model, DType::kBF16, device_stream(),
                   {.max_step_tokens = 64, .max_batch = 4, .deterministic = true}, 96);
  const std::vector<TokenId> prompt = RandomTokens(60, model->config.vocab, 1),
                             other = RandomTokens(30, model->config.vocab, 2);
  CudaHarness::Sequence whole;
  const std::vector<float> expected = cuda.Append(whole, prompt);
  for (const size_t chunk : {1, 16, 37}) {
    CudaHarness::Sequence sequence;
    EXPECT_EQ(cuda.Append(sequence, prompt, chunk), expected) << chunk;
  }
  CudaHarness::Sequence sequence, neighbour;
  cuda.Append(sequence, {prompt.begin(), prompt.end() - 1});
  EXPECT_EQ(cuda.Step({{&neighbour, other}, {&sequence, {prompt.back()}}})[1], expected);
}

TEST_F(CudaRunnerTest, WindowsAndLongContextsMatchTheCpu) {
  model::ModelConfig config = ConfigWithHeads(64, "MistralForCausalLM");
  config.windows.assign(config.layers, 40);
  config.windows[0] = 0;
  const auto model = fakes::MakeRandomModel(config, 4 + TestSeed(), DType::kF32);
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    RunnerHarness cpu(PackOrDie(*model), DType::kF32, 64);
    CudaHarness cuda(*model, dtype, device_stream());
    RunnerHarness::Sequence on_cpu;
    CudaHarness::Sequence on_cuda;
    const std::vector<TokenId> prompt = RandomTokens(200, config.vocab, 1);
    const float allowed = dtype == DType::kF32 ? 1e-5f : 4e-3f;
    ExpectAlike(cuda.Append(on_cuda, prompt, 77), cpu.Append(on_cpu, prompt), allowed);
    ExpectAlike(cuda.Append(on_cuda, {5}), cpu.Append(on_cpu, {5}), allowed);
  }
}

TEST_F(CudaRunnerTest, KeysAndValuesAsFp8AreHalfTheBytesAndCostSomeExactness) {
  for (const bool deterministic : {false, true}) {  // prompts by either kernel
    const auto model = fakes::MakeRandomModel(ConfigWithHeads(64), 8);
    const auto weights = UploadOrDie(*model, DType::kBF16, device_stream());
    RunnerHarness cpu(PackOrDie(*model), DType::kBF16, 64);
    CudaHarness cuda(weights, DType::kF8, {.deterministic = deterministic}, 64);
    EXPECT_EQ(2 * cuda.layout().BytesPerBlock(), cpu.layout().BytesPerBlock());
    RunnerHarness::Sequence on_cpu;
    CudaHarness::Sequence on_cuda;
    const std::vector<TokenId> prompt = RandomTokens(90, model->config.vocab, 3);
    const std::vector<float> expected = cpu.Append(on_cpu, prompt), actual = cuda.Append(on_cuda, prompt, 50);
    ExpectAlike(actual, expected, 0.12f);
    const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
    float worst = 0;
    for (size_t i = 0; i < actual.size(); ++i) worst = std::max(worst, std::abs(actual[i] - expected[i]));
    EXPECT_GT(worst, 0.005f * (*high - *low)) << "this is no fp8";
    for (const TokenId token : {5, 200, 17}) {
      ExpectAlike(cuda.Append(on_cuda, {token}), cpu.Append(on_cpu, {token}), 0.12f);
    }
  }
}

TEST_F(CudaRunnerTest, TheDemoModelAnswersAsOnTheCpu) {
  const char* elsewhere = std::getenv("BATON_DEMO_MODEL");
  const auto model = model::LoadModel(elsewhere != nullptr ? elsewhere : BATON_SOURCE_DIR "/deploy/models/demo");
  ASSERT_TRUE(model.ok()) << StatusMessage(model.status());
  RunnerHarness cpu(PackOrDie(**model), DType::kBF16, 16);
  CudaHarness cuda(**model, DType::kBF16, device_stream(), {.max_batch = 2}, 16);
  for (const uint32_t seed : {1u, 2u, 3u}) {
    RunnerHarness::Sequence on_cpu;
    CudaHarness::Sequence on_cuda;
    const std::vector<TokenId> prompt = RandomTokens(20, (*model)->config.vocab, seed);
    std::vector<float> expected = cpu.Append(on_cpu, prompt), actual = cuda.Append(on_cuda, prompt);
    for (int i = 0; i < 24; ++i) {
      const TokenId token = Greedy(expected);
      if (Greedy(actual) != token) {  // a tie but for what the formats round
        const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
        EXPECT_LT(expected[token] - expected[Greedy(actual)], 0.02f * (*high - *low)) << seed << " " << i;
      }
      expected = cpu.Append(on_cpu, {token});
      actual = cuda.Append(on_cuda, {token});
    }
  }
}

TEST_F(CudaRunnerTest, StepsAllocateNothingOnTheDeviceNorLetLogitsOut) {
  const auto model = fakes::MakeRandomModel(ConfigWithHeads(64), 5);
  CudaHarness cuda(*model, DType::kBF16, device_stream(), {.max_batch = 3});
  std::vector<Sampler> samplers;
  std::vector<StepSample> samples(3);
  for (uint32_t i = 0; i < 3; ++i) {
    const SamplingParams params{.max_tokens = 100, .repetition_penalty = 1.1f, .seed = i, .logprobs = 2};
    samplers.emplace_back(params, 0, model->config.vocab, RandomTokens(20, 300, i), std::vector<TokenId>());
  }
  for (uint32_t i = 0; i < 3; ++i) samples[i].sampler = &samplers[i];
  CudaHarness::Sequence sequences[3];
  uint64_t free = 0;
  for (uint32_t step = 0; step < 4; ++step) {
    std::vector<CudaHarness::Part> parts;
    for (uint32_t i = 0; i < 3; ++i) {
      parts.push_back({&sequences[i], RandomTokens(step % 2 == 0 ? 20 + i : 1, 300, i), false, {&samples[i], 1}});
    }
    for (const std::vector<float>& logits : cuda.Step(parts)) EXPECT_TRUE(logits.empty());
    for (const StepSample& sample : samples) EXPECT_EQ(sample.token.top.size(), 2u);
    // Kernels are loaded when they first run, which takes memory once.
    if (step == 0) free = device::Open(0)->free_bytes;
    EXPECT_EQ(device::Open(0)->free_bytes, free) << step;
  }
  for (const Sampler& sampler : samplers) EXPECT_EQ(sampler.generated(), 4u);
}

TEST_F(CudaRunnerTest, ACopiedOrSwappedBlockHoldsTheSameKeysAndValues) {
  const auto model = fakes::MakeRandomModel(ConfigWithHeads(64), 5 + TestSeed());
  CudaHarness cuda(*model, DType::kBF16, device_stream(), {.deterministic = true, .swap_blocks = 3});
  EXPECT_EQ(cuda.runner().swap_slots(), 3u);
  ExpectMovedBlocksHoldTheSame(cuda, RandomTokens(20, model->config.vocab, 1));
}

TEST_F(CudaRunnerTest, BatchesThatDoNotFitAreRefusedBeforeAnythingIsWritten) {
  const auto model = fakes::MakeRandomModel(ConfigWithHeads(16), 6 + TestSeed());
  CudaHarness cuda(*model, DType::kBF16, device_stream(), {.max_step_tokens = 8, .max_batch = 2}, 4);
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9}, unknown = {320};
  const std::vector<BlockId> blocks = {0}, beyond = {4};
  std::vector<std::span<float>> logits(3);
  const auto refusal = [&](const std::vector<StepSequence>& batch) {
    const absl::Status status = cuda.runner().Step(batch, logits);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return StatusMessage(status);
  };
  EXPECT_THAT(refusal({{tokens, 0, blocks, true}}), HasSubstr("batch of 9 tokens, a step takes 8"));
  EXPECT_THAT(refusal({{unknown, 0, blocks, true}}), HasSubstr("token 320, the vocabulary has 320"));
  EXPECT_THAT(refusal({{{tokens.data(), 1}, 0, beyond, true}}), HasSubstr("block 4, the pool has 4"));
  EXPECT_THAT(refusal({{{tokens.data(), 1}, 16, blocks, true}}), HasSubstr("needs 2 blocks"));
  EXPECT_THAT(refusal({{{tokens.data(), 1}, 600, blocks, true}}), HasSubstr("the model takes 512"));
  EXPECT_THAT(refusal({{{}, 0, blocks, true}}), HasSubstr("has no tokens"));
}

TEST_F(CudaRunnerTest, WeightsAndPoolsOfOtherShapesAreRefused) {
  const auto model = fakes::MakeRandomModel(ConfigWithHeads(16), 7 + TestSeed());
  EXPECT_THAT(StatusMessage(LoadCudaWeights(*model, DType::kQ8_0, device_stream()).status()), HasSubstr("not q8_0"));
  const auto weights = LoadCudaWeights(*model, DType::kBF16, device_stream());
  ASSERT_TRUE(weights.ok());
  KvLayout layout = CudaKvLayout(model->config, DType::kF16);
  EXPECT_THAT(StatusMessage(CudaRunner::Create(*weights, layout, {}, {}).status()),
              HasSubstr("KV format f16, weights bf16"));
  const auto in_f32 = LoadCudaWeights(*model, DType::kF32, device_stream());
  layout.dtype = DType::kF8;
  EXPECT_THAT(StatusMessage(CudaRunner::Create(*in_f32, layout, std::span<std::byte>(), {}).status()),
              HasSubstr("KV format fp8, weights f32"));
  layout.key_order = KeyOrder::kByElement;
  EXPECT_THAT(StatusMessage(CudaRunner::Create(*weights, layout, {}, {}).status()), HasSubstr("slot by slot"));
  layout = CudaKvLayout(model->config, DType::kBF16);
  layout.layers = 3;
  EXPECT_THAT(StatusMessage(CudaRunner::Create(*weights, layout, {}, {}).status()), HasSubstr("3 layers"));
}

}  // namespace
}  // namespace baton
