// The CUDA engine on models of real shapes: against the CPU's engine, and I6 in its deterministic mode.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/gpu/model_under_test.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/unit/engine/cuda_harness.h"
#include "tests/unit/engine/runner_harness.h"

namespace baton {
namespace {

using Sequence = SequenceDriver::Sequence;

// One model for all tests: the large ones take seconds to make.
class ShapedModels : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (model_ == nullptr) {
      model_ = MakeModelUnderTest();
      weights_ = UploadOrDie(*model_, DType::kBF16, device_stream());
    }
  }
  static void TearDownTestSuite() {
    weights_.reset();
    model_.reset();
  }

  // The likeliest token after each, teacher-forced to its own.
  static std::vector<TokenId> Continue(SequenceDriver& driver, Sequence& sequence, const std::vector<TokenId>& prompt,
                                       int count, size_t chunk = 512) {
    std::vector<TokenId> tokens = {Greedy(driver.Append(sequence, prompt, chunk))};
    while (static_cast<int>(tokens.size()) < count) tokens.push_back(Greedy(driver.Append(sequence, {tokens.back()})));
    return tokens;
  }
  static std::vector<TokenId> Prompt(size_t count, uint32_t seed) {
    return RandomPrompt(count, model_->config.vocab, seed);
  }

  static inline std::shared_ptr<const model::Model> model_;
  static inline std::shared_ptr<const CudaWeights> weights_;
};

TEST_F(ShapedModels, GreedyTokensAreTheCpusButForTies) {
  auto packed = PackCpuWeights(*model_, WeightsFormat::kAuto, 0);
  ASSERT_TRUE(packed.ok()) << StatusMessage(packed.status());
  RunnerHarness cpu(*std::move(packed), DType::kBF16, 8);
  CudaHarness cuda(weights_, {.max_batch = 2}, 8);
  Sequence on_cpu, on_cuda;
  const std::vector<TokenId> prompt = Prompt(70, 1);
  std::vector<float> expected = cpu.Append(on_cpu, prompt), actual = cuda.Append(on_cuda, prompt);
  for (int i = 0; i < 12; ++i) {
    const TokenId token = Greedy(expected), other = Greedy(actual);
    const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
    float worst = 0;
    for (size_t id = 0; id < actual.size(); ++id) worst = std::max(worst, std::abs(actual[id] - expected[id]));
    EXPECT_LT(worst, 0.05f * (*high - *low)) << "logits after token " << i;
    EXPECT_LE(expected[token] - expected[other], 2 * worst) << "token " << i;
    expected = cpu.Append(on_cpu, {token});
    actual = cuda.Append(on_cuda, {token});
  }
}

TEST_F(ShapedModels, GraphsGiveTheBitsOfEagerSteps) {
  CudaHarness eager(weights_, {.max_batch = 3, .graphs = false, .deterministic = true}, 32);
  CudaHarness graphs(weights_, {.max_batch = 3, .graphs = true, .deterministic = true}, 32);
  Sequence of_eager[3], of_graphs[3];
  for (int step = 0; step < 20; ++step) {
    std::vector<SequenceDriver::Part> eager_parts, graph_parts;
    for (int i = 0; i < 3; ++i) {
      const TokenId token = Prompt(1, 100 * step + i)[0];
      eager_parts.push_back({&of_eager[i], {token}});
      graph_parts.push_back({&of_graphs[i], {token}});
    }
    ASSERT_EQ(graphs.Step(graph_parts), eager.Step(eager_parts)) << step;
  }
}

TEST_F(ShapedModels, DeterministicTokensDoNotDependOnNeighboursOrChunks) {
  CudaHarness cuda(weights_, {.max_step_tokens = 128, .max_batch = 8, .deterministic = true}, 64);
  const std::vector<TokenId> prompt = Prompt(75, 2);
  Sequence alone;
  const std::vector<TokenId> expected = Continue(cuda, alone, prompt, 12, 128);
  for (const size_t chunk : {16, 33}) {
    Sequence sequence;
    EXPECT_EQ(Continue(cuda, sequence, prompt, 12, chunk), expected) << chunk;
    cuda.Release(sequence);
  }
  // Among seven others that decode, one of which begins with each token.
  std::vector<Sequence> others(7);
  Sequence sequence;
  std::vector<float> logits = cuda.Append(sequence, prompt);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(Greedy(logits), expected[i]) << i;
    std::vector<SequenceDriver::Part> parts;
    for (size_t j = 0; j < std::min(i, others.size()); ++j) {
      parts.push_back({&others[j], Prompt(i % 3 + 1, static_cast<uint32_t>(i + 10 * j))});
    }
    parts.push_back({&sequence, {expected[i]}});
    logits = cuda.Step(parts).back();
  }
}

}  // namespace
}  // namespace baton
