#pragma once

// A prompt read by one runner and continued by another one on the same device, whose blocks lie elsewhere. The bytes go
// as a transport takes them: out of one pool and into the other by the pools' staging buffers. How they get from buffer
// to buffer is what the tests differ in.

#include <functional>
#include <memory>
#include <vector>

#include "common/engine/cuda_pool.h"
#include "common/engine/cuda_runner.h"
#include "tests/gpu/model_under_test.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/unit/engine/cuda_harness.h"
#include "tests/unit/engine/runner_harness.h"

namespace baton {

class BlockHandoff : public CudaTest {
 protected:
  // Takes `bytes` from one side's buffer to the other's, and waits until they are there.
  using Carry = std::function<void(std::byte* from, std::byte* to, uint64_t bytes)>;

  class Side final : public SequenceDriver {
   public:
    Side(const std::shared_ptr<const CudaWeights>& weights, uint32_t blocks)
        : SequenceDriver(CudaKvLayout(weights->config, weights->dtype), blocks) {
      const int device = 0;
      auto pool = CudaPool::Create(layout_, blocks, {&device, 1});
      BATON_CHECK(pool.ok());
      pool_ = *std::move(pool);
      auto runner = CudaRunner::Create({weights}, *pool_, {.max_batch = 2});
      BATON_CHECK(runner.ok());
      runner_ = *std::move(runner);
      Drive(runner_.get());
    }

    std::unique_ptr<PoolStaging> Staging(StagingPlace place, uint64_t bytes) {
      auto staging = pool_->MakeStaging(place, 1, bytes);
      EXPECT_TRUE(staging.ok()) << StatusMessage(staging.status());
      BATON_CHECK(staging.ok());
      return *std::move(staging);
    }
    // Of a sequence's blocks, one behind the other in a buffer.
    std::vector<PoolRun> Runs(const Sequence& sequence) const {
      const uint64_t bytes = layout_.BytesPerBlock();
      std::vector<PoolRun> runs;
      for (const BlockId block : sequence.blocks) runs.push_back({block * bytes, bytes, runs.size() * bytes});
      return runs;
    }
    std::vector<uint64_t> Checksums(const Sequence& sequence, StepOrder order) {
      std::vector<uint64_t> sums(sequence.blocks.size());
      const absl::Status status = pool_->Checksums(sequence.blocks, layout_.key_order, order, sums);
      EXPECT_TRUE(status.ok()) << StatusMessage(status);
      return sums;
    }

   private:
    std::unique_ptr<CudaPool> pool_;
    std::unique_ptr<CudaRunner> runner_;
  };

  // Tokens after the handoff equal those of the runner that read the prompt, and blocks have the same checksums.
  void ExpectSameTokens(StagingPlace place, const Carry& carry) {
    const auto model = MakeModelUnderTest();
    const auto weights = UploadOrDie(*model, DType::kBF16, device_stream());
    Side prefill(weights, 24), decode(weights, 40);
    SequenceDriver::Sequence source, target;
    const std::vector<TokenId> prompt = RandomPrompt(150, model->config.vocab, 1);
    const TokenId first = Greedy(prefill.Append(source, prompt));
    for (size_t i = 0; i < source.blocks.size(); ++i) target.blocks.push_back(decode.TakeBlock());
    target.length = source.length;

    const uint64_t bytes = source.blocks.size() * prefill.layout().BytesPerBlock();
    const auto gathered = prefill.Staging(place, bytes), arrived = decode.Staging(place, bytes);
    const auto expect = [](const absl::Status& status) { ASSERT_TRUE(status.ok()) << StatusMessage(status); };
    expect(gathered->Read(0, prefill.Runs(source), prefill.layout().key_order));
    expect(gathered->Wait(0));
    carry(gathered->buffer(0), arrived->buffer(0), bytes);
    expect(arrived->Write(0, decode.Runs(target)));
    expect(arrived->Wait(0));
    ASSERT_EQ(decode.Checksums(target, StepOrder::kBeside), prefill.Checksums(source, StepOrder::kBehind));

    TokenId local = first, remote = first;
    for (int i = 0; i < 24; ++i) {
      const std::vector<float> here = prefill.Append(source, {local}), there = decode.Append(target, {remote});
      local = Greedy(here);
      remote = Greedy(there);
      ASSERT_EQ(remote, local) << "token " << i;
      ASSERT_EQ(there, here) << "logits of token " << i;
    }
  }
};

}  // namespace baton
