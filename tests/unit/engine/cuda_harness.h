#pragma once

// A CUDA runner with a pool of its own, on the host stand-in or on a device; tokens to feed it and logits to compare.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/engine/cpu_runner.h"
#include "common/engine/cuda_runner.h"
#include "common/model/model.h"
#include "tests/kernels/random_floats.h"
#include "tests/unit/engine/sequence_driver.h"

namespace baton {

inline std::vector<TokenId> RandomTokens(size_t count, uint32_t vocab, uint32_t seed) {
  std::mt19937 random(seed + TestSeed());
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab);
  return tokens;
}

// Logits differ by less than `allowed`, a part of their spread.
inline void ExpectAlike(const std::vector<float>& actual, const std::vector<float>& expected, float allowed) {
  ASSERT_EQ(actual.size(), expected.size());
  ASSERT_FALSE(actual.empty());
  const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
  float worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_TRUE(std::isfinite(actual[i])) << i;
    worst = std::max(worst, std::abs(actual[i] - expected[i]));
  }
  EXPECT_LE(worst, allowed * (*high - *low));
}

inline std::shared_ptr<const CudaWeights> UploadOrDie(const model::Model& model, DType dtype,
                                                      const device::Stream& stream) {
  auto weights = LoadCudaWeights(model, dtype, stream);
  if (!weights.ok()) ADD_FAILURE() << StatusMessage(weights.status());
  BATON_CHECK(weights.ok());
  return *std::move(weights);
}

class CudaHarness final : public SequenceDriver {
 public:
  CudaHarness(const model::Model& model, DType dtype, const device::Stream& stream,
              const CudaRunnerOptions& options = {}, uint32_t blocks = 64)
      : CudaHarness(UploadOrDie(model, dtype, stream), options, blocks) {}

  CudaHarness(std::shared_ptr<const CudaWeights> weights, const CudaRunnerOptions& options, uint32_t blocks)
      : CudaHarness(weights, weights->dtype, options, blocks) {}

  CudaHarness(std::shared_ptr<const CudaWeights> weights, DType kv_dtype, const CudaRunnerOptions& options,
              uint32_t blocks)
      : SequenceDriver(CudaKvLayout(weights->config, kv_dtype), blocks) {
    auto memory = device::Memory::Allocate(device::MemoryKind::kDevice, blocks * layout_.BytesPerBlock());
    EXPECT_TRUE(memory.ok()) << StatusMessage(memory.status());
    pool_ = *std::move(memory);
    auto runner = CudaRunner::Create(std::move(weights), layout_, pool(), options);
    EXPECT_TRUE(runner.ok()) << StatusMessage(runner.status());
    BATON_CHECK(runner.ok());
    runner_ = *std::move(runner);
    Drive(runner_.get());
  }

  CudaRunner& runner() { return *runner_; }
  std::span<std::byte> pool() const { return {pool_.data(), pool_.size()}; }

 private:
  device::Memory pool_;
  std::unique_ptr<CudaRunner> runner_;
};

// `cuda`, with three swap slots, goes on from copied and from swapped blocks as from the first ones.
template <typename Harness>
void ExpectMovedBlocksHoldTheSame(Harness& cuda, const std::vector<TokenId>& prompt) {
  typename Harness::Sequence sequence;
  cuda.Append(sequence, prompt);
  typename Harness::Sequence copy = sequence, swapped = sequence;
  copy.blocks[1] = cuda.TakeBlock();
  swapped.blocks[0] = cuda.TakeBlock();
  swapped.blocks[1] = cuda.TakeBlock();
  cuda.runner().CopyBlock(sequence.blocks[1], copy.blocks[1]);
  for (uint32_t i = 0; i < 2; ++i) cuda.runner().SwapOut(sequence.blocks[i], 2 - i);
  const std::vector<float> expected = cuda.Append(sequence, {9});
  EXPECT_EQ(cuda.Append(copy, {9}), expected);
  for (uint32_t i = 0; i < 2; ++i) cuda.runner().SwapIn(2 - i, swapped.blocks[i]);
  EXPECT_EQ(cuda.Append(swapped, {9}), expected);
}

}  // namespace baton
