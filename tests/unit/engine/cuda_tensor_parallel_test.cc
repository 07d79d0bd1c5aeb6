// The CUDA engine on several devices against one device and against the CPU's; on the host stand-in, whose devices are
// as many as a test wants.

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "common/model/model.h"
#include "tests/fakes/cuda/stand_in.h"
#include "tests/fakes/random_model.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/unit/engine/cuda_harness.h"
#include "tests/unit/engine/runner_harness.h"

namespace baton {
namespace {

using testing::HasSubstr;

std::vector<int> Devices(uint32_t ranks) {
  std::vector<int> devices(ranks);
  std::iota(devices.rbegin(), devices.rend(), 0);  // rank 0 need not be on device 0
  return devices;
}

// A runner of several ranks and their pool.
class RanksHarness final : public SequenceDriver {
 public:
  RanksHarness(const model::Model& model, DType dtype, uint32_t ranks, const CudaRunnerOptions& options = {},
               uint32_t blocks = 64)
      : SequenceDriver(CudaKvLayout(model.config, dtype), blocks) {
    auto shards = LoadCudaShards(model, dtype, Devices(ranks));
    BATON_CHECK(shards.ok());
    shards_ = *shards;
    auto pool = CudaPool::Create(layout_, blocks, Devices(ranks));
    BATON_CHECK(pool.ok());
    pool_ = *std::move(pool);
    BATON_CHECK(device::Use(0).ok());
    auto runner = CudaRunner::Create(shards_, *pool_, options);
    EXPECT_TRUE(runner.ok()) << StatusMessage(runner.status());
    BATON_CHECK(runner.ok());
    runner_ = *std::move(runner);
    Drive(runner_.get());
  }

  CudaRunner& runner() { return *runner_; }
  CudaPool& pool() { return *pool_; }
  const std::vector<std::shared_ptr<const CudaWeights>>& shards() const { return shards_; }

 private:
  std::vector<std::shared_ptr<const CudaWeights>> shards_;
  std::unique_ptr<CudaPool> pool_;
  std::unique_ptr<CudaRunner> runner_;
};

// Takes up to four ranks.
model::ModelConfig DivisibleConfig(const std::string& architecture = "Qwen2ForCausalLM") {
  model::ModelConfig config = fakes::TinyConfig(architecture);
  config.heads = 8;
  config.kv_heads = 4;
  return config;
}

class TensorParallel : public CudaTest {
 protected:
  void SetUp() override {
    stand_in::SetDeviceCount(4);
    CudaTest::SetUp();
  }
  void TearDown() override {
    stand_in::TakeKernelError();
    ASSERT_TRUE(device::Use(0).ok());
    stand_in::SetDeviceCount(1);
  }
};

class TensorParallelArchitecture : public TensorParallel, public testing::WithParamInterface<std::string> {};

TEST_P(TensorParallelArchitecture, ComputesTheCpusLogits) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    model::ModelConfig config = DivisibleConfig(GetParam());
    config.vocab = 333;  // the last rank has fewer
    const auto model = fakes::MakeRandomModel(config, 1, dtype);
    RunnerHarness cpu(PackOrDie(*model), dtype, 64);
    CudaHarness one(*model, dtype, device_stream(), {.max_step_tokens = 128, .max_batch = 4});
    const float allowed = dtype == DType::kF32 ? 1e-5f : 3e-2f;
    const std::vector<TokenId> prompt = RandomTokens(24, config.vocab, 3), other = RandomTokens(9, config.vocab, 4);
    for (const uint32_t ranks : {2u, 4u}) {
      SCOPED_TRACE(std::string(DTypeName(dtype)) + " " + std::to_string(ranks));
      RanksHarness several(*model, dtype, ranks, {.max_step_tokens = 128, .max_batch = 4});
      RunnerHarness::Sequence on_cpu[2];
      CudaHarness::Sequence on_one[2];
      RanksHarness::Sequence on_several[2];
      const std::vector<float> first = several.Append(on_several[0], prompt);
      ExpectAlike(first, cpu.Append(on_cpu[0], prompt), allowed);
      ExpectAlike(first, one.Append(on_one[0], prompt), allowed);
      // One decodes while the other's prompt is read, then both decode, as a graph.
      for (const std::vector<TokenId>& tokens : {other, {11}}) {
        const auto actual = several.Step({{&on_several[1], tokens}, {&on_several[0], {7}}});
        const auto by_cpu = cpu.Step({{&on_cpu[1], tokens}, {&on_cpu[0], {7}}});
        const auto by_one = one.Step({{&on_one[1], tokens}, {&on_one[0], {7}}});
        for (int i = 0; i < 2; ++i) {
          ExpectAlike(actual[i], by_cpu[i], allowed);
          ExpectAlike(actual[i], by_one[i], allowed);
        }
      }
      for (int i = 0; i < 2; ++i) {
        cpu.Release(on_cpu[i]);
        one.Release(on_one[i]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TensorParallelArchitecture,
                         testing::Values("Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM",
                                         "MistralForCausalLM"),
                         [](const auto& info) { return info.param; });

TEST_F(TensorParallel, UntiedHeadsWindowsAndPrefillKernelsMatchOneRank) {
  model::ModelConfig config = DivisibleConfig("MistralForCausalLM");
  config.head_dim = 64;
  config.heads = 4;
  config.kv_heads = 2;
  config.tied_head = false;
  config.windows.assign(config.layers, 40);
  const auto model = fakes::MakeRandomModel(config, 2, DType::kF16);
  CudaHarness one(*model, DType::kF16, device_stream(), {.max_batch = 2});
  RanksHarness two(*model, DType::kF16, 2, {.max_batch = 2});
  CudaHarness::Sequence on_one;
  RanksHarness::Sequence on_two;
  const std::vector<TokenId> prompt = RandomTokens(120, config.vocab, 1);
  ExpectAlike(two.Append(on_two, prompt, 77), one.Append(on_one, prompt, 77), 4e-3f);
  ExpectAlike(two.Append(on_two, {5}), one.Append(on_one, {5}), 4e-3f);
}

TEST_F(TensorParallel, TheDemoModelAnswersAsOnTheCpu) {
  const auto model = model::LoadModel(BATON_SOURCE_DIR "/deploy/models/demo");
  ASSERT_TRUE(model.ok()) << StatusMessage(model.status());
  RunnerHarness cpu(PackOrDie(**model), DType::kBF16, 16);
  RanksHarness two(**model, DType::kBF16, 2, {.max_batch = 2}, 16);
  RunnerHarness::Sequence on_cpu;
  RanksHarness::Sequence on_two;
  const std::vector<TokenId> prompt = RandomTokens(20, (*model)->config.vocab, 1);
  std::vector<float> expected = cpu.Append(on_cpu, prompt), actual = two.Append(on_two, prompt);
  for (int i = 0; i < 16; ++i) {
    const TokenId token = Greedy(expected);
    if (Greedy(actual) != token) {  // a tie but for what the formats round
      const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
      EXPECT_LT(expected[token] - expected[Greedy(actual)], 0.02f * (*high - *low)) << i;
    }
    expected = cpu.Append(on_cpu, {token});
    actual = two.Append(on_two, {token});
  }
}

TEST_F(TensorParallel, GraphsGiveTheBitsOfEagerSteps) {
  const auto model = fakes::MakeRandomModel(DivisibleConfig(), 2);
  constexpr int kSteps = 17;  // into the second block
  for (const bool deterministic : {false, true}) {
    RanksHarness eager(*model, DType::kBF16, 2, {.max_batch = 3, .graphs = false, .deterministic = deterministic});
    RanksHarness graphs(*model, DType::kBF16, 2, {.max_batch = 3, .graphs = true, .deterministic = deterministic});
    const uint64_t before = stand_in::GraphsLaunched();
    std::vector<RanksHarness::Sequence> of_eager(3), of_graphs(3);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<RanksHarness::Part> eager_parts, graph_parts;
      for (size_t i = 0; i < 3; ++i) {
        const TokenId token = static_cast<TokenId>((7 * step + 31 * i) % 300);
        eager_parts.push_back({&of_eager[i], {token}});
        graph_parts.push_back({&of_graphs[i], {token}});
      }
      EXPECT_EQ(graphs.Step(graph_parts), eager.Step(eager_parts)) << step;
    }
    EXPECT_EQ(stand_in::GraphsLaunched(), before + 2 * kSteps);
  }
}

TEST_F(TensorParallel, DeterministicRowsDependOnTheirOwnTokensAlone) {
  const auto model = fakes::MakeRandomModel(DivisibleConfig(), 3);
  RanksHarness cuda(*model, DType::kBF16, 4, {.max_step_tokens = 64, .max_batch = 4, .deterministic = true}, 96);
  const std::vector<TokenId> prompt = RandomTokens(40, model->config.vocab, 1),
                             other = RandomTokens(20, model->config.vocab, 2);
  RanksHarness::Sequence whole;
  const std::vector<float> expected = cuda.Append(whole, prompt);
  for (const size_t chunk : {1, 16}) {
    RanksHarness::Sequence sequence;
    EXPECT_EQ(cuda.Append(sequence, prompt, chunk), expected) << chunk;
  }
  RanksHarness::Sequence sequence, neighbour;
  cuda.Append(sequence, {prompt.begin(), prompt.end() - 1});
  EXPECT_EQ(cuda.Step({{&neighbour, other}, {&sequence, {prompt.back()}}})[1], expected);
}

TEST_F(TensorParallel, ACopiedOrSwappedBlockHoldsTheSameKeysAndValuesOnAllRanks) {
  const auto model = fakes::MakeRandomModel(DivisibleConfig(), 5);
  RanksHarness cuda(*model, DType::kBF16, 4, {.deterministic = true, .swap_blocks = 3});
  ExpectMovedBlocksHoldTheSame(cuda, RandomTokens(20, model->config.vocab, 1));
}

// Blocks of one pool to blocks of another, as handoff moves them.
void HandOver(CudaPool& from, const std::vector<BlockId>& blocks, CudaPool& to, const std::vector<BlockId>& targets) {
  const uint64_t bytes = from.layout().BytesPerBlock();
  auto out = from.MakeStaging(StagingPlace::kHost, 1, bytes), in = to.MakeStaging(StagingPlace::kHost, 1, bytes);
  ASSERT_TRUE(out.ok() && in.ok());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const PoolRun run{blocks[i] * bytes, bytes, 0}, target{targets[i] * bytes, bytes, 0};
    ASSERT_TRUE((*out)->Read(0, {&run, 1}, KeyOrder::kBySlot).ok());
    ASSERT_TRUE((*out)->Wait(0).ok());
    std::copy_n((*out)->buffer(0), bytes, (*in)->buffer(0));
    ASSERT_TRUE((*in)->Write(0, {&target, 1}).ok());
    ASSERT_TRUE((*in)->Wait(0).ok());
  }
}

TEST_F(TensorParallel, UnequalNumbersOfRanksHandOverToEachOther) {
  model::ModelConfig config = DivisibleConfig("Qwen3ForCausalLM");
  const auto model = fakes::MakeRandomModel(config, 11, DType::kF32);
  const std::vector<TokenId> prompt = RandomTokens(20, config.vocab, 1);
  constexpr uint32_t kRanks[] = {1, 2, 4};
  for (const uint32_t from : kRanks) {
    for (const uint32_t to : kRanks) {
      SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
      const CudaRunnerOptions options{.max_batch = 2, .graphs = false};
      RanksHarness prefill(*model, DType::kF32, from, options, 8), decode(*model, DType::kF32, to, options, 8);
      EXPECT_EQ(prefill.layout().Hash(), decode.layout().Hash());
      RanksHarness::Sequence local, remote;
      std::vector<float> logits = prefill.Append(local, prompt);
      for (size_t i = 0; i < local.blocks.size(); ++i) remote.blocks.push_back(decode.TakeBlock());
      remote.length = local.length;
      HandOver(prefill.pool(), local.blocks, decode.pool(), remote.blocks);
      for (int i = 0; i < 2; ++i) {
        const TokenId token = Greedy(logits);
        logits = prefill.Append(local, {token});
        ExpectAlike(decode.Append(remote, {token}), logits, 1e-5f);
      }
    }
  }
}

TEST_F(TensorParallel, AnErrorOfOneDeviceEndsTheStepOfAll) {
  const auto model = fakes::MakeRandomModel(DivisibleConfig(), 6);
  for (const bool graphs : {false, true}) {
    for (const int device : {0, 1}) {
      for (const uint64_t kernels : {0, 5, 9}) {
        RanksHarness cuda(*model, DType::kBF16, 2, {.max_batch = 2, .graphs = graphs});
        RanksHarness::Sequence sequence;
        cuda.Append(sequence, {1});
        stand_in::FailKernel(device, kernels);
        const std::vector<TokenId> tokens = {2};
        const StepSequence part{tokens, sequence.length, sequence.blocks, true};
        std::vector<std::span<float>> logits(1);
        const absl::Status failed = cuda.runner().Step({&part, 1}, logits);
        EXPECT_EQ(failed.code(), absl::StatusCode::kInternal) << StatusMessage(failed);
        EXPECT_THAT(StatusMessage(failed), HasSubstr("cudaErrorLaunchFailure"));
        stand_in::TakeKernelError();
        EXPECT_EQ(cuda.runner().Step({&part, 1}, logits), failed);
      }
    }
  }
}

TEST_F(TensorParallel, EveryRankHoldsItsShareOfTheMatrices) {
  model::ModelConfig config = DivisibleConfig();
  config.tied_head = false;
  const auto model = fakes::MakeRandomModel(config, 7);
  const uint64_t embedding = BytesOf(DType::kBF16, uint64_t{config.vocab} * config.hidden);
  const uint64_t whole = RanksHarness(*model, DType::kBF16, 1).shards()[0]->matrix_bytes - embedding;
  RanksHarness four(*model, DType::kBF16, 4);
  for (const auto& shard : four.shards()) EXPECT_EQ(shard->matrix_bytes - embedding, whole / 4);
}

TEST_F(TensorParallel, AnotherNumberOfRanksIsAnotherNumericsHash) {
  const auto model = fakes::MakeRandomModel(DivisibleConfig(), 8);
  RanksHarness one(*model, DType::kBF16, 1), two(*model, DType::kBF16, 2), same(*model, DType::kBF16, 2);
  EXPECT_NE(one.runner().numerics_hash(), two.runner().numerics_hash());
  EXPECT_EQ(two.runner().numerics_hash(), same.runner().numerics_hash());
}

TEST_F(TensorParallel, ModelsThatDoNotDivideAreRefusedWithNumbers) {
  model::ModelConfig config = DivisibleConfig();
  config.heads = 6;
  config.kv_heads = 3;
  const auto refusal = [&](uint32_t ranks) {
    const auto model = fakes::MakeRandomModel(config, 9);
    return StatusMessage(LoadCudaShards(*model, DType::kBF16, Devices(ranks)).status());
  };
  EXPECT_THAT(refusal(2), HasSubstr("tensor parallel size 2: the model has 3 KV heads"));
  config.heads = config.kv_heads = 4;
  config.intermediate = 72;
  EXPECT_THAT(refusal(2), HasSubstr("a multiple of 8 of the model's feed-forward width 72"));
  config.intermediate = 128;
  EXPECT_THAT(refusal(0), HasSubstr("no device"));
  stand_in::SetDeviceCount(2);
  EXPECT_THAT(refusal(4), HasSubstr("CUDA device 3; there are 2"));
}

TEST_F(TensorParallel, ShardsAndPoolsThatDoNotBelongTogetherAreRefused) {
  const auto model = fakes::MakeRandomModel(DivisibleConfig(), 10);
  const auto shards = LoadCudaShards(*model, DType::kBF16, Devices(2));
  ASSERT_TRUE(shards.ok());
  const KvLayout layout = CudaKvLayout(model->config, DType::kBF16);
  std::byte* memory = NewDevice<std::byte>(4 * layout.BytesPerBlock());
  const std::span<std::byte> two_blocks{memory, layout.BytesPerBlock()}, three{memory, layout.BytesPerBlock() / 2 * 3};
  const auto refusal = [&](std::vector<std::shared_ptr<const CudaWeights>> of,
                           std::vector<std::span<std::byte>> pools) {
    return StatusMessage(CudaRunner::Create(std::move(of), layout, std::move(pools), {}).status());
  };
  EXPECT_THAT(refusal({}, {}), HasSubstr("0 shards"));
  EXPECT_THAT(refusal(*shards, {two_blocks}), HasSubstr("2 shards of weights and 1 pools"));
  EXPECT_THAT(refusal({(*shards)[1], (*shards)[0]}, {two_blocks, two_blocks}), HasSubstr("are those of rank 1 of 2"));
  EXPECT_THAT(refusal(*shards, {two_blocks, three}), HasSubstr("rank 1's pool"));
  EXPECT_THAT(refusal({(*shards)[0]}, {two_blocks}), HasSubstr("rank 0 of 1"));
}

}  // namespace
}  // namespace baton
