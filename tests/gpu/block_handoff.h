#pragma once

// A prompt read by one runner and continued by another one on the same device, whose blocks lie elsewhere. How the
// bytes get from one pool to the other is what the tests differ in.

#include <functional>
#include <memory>
#include <vector>

#include "kernels/cuda/block_copy.h"
#include "kernels/cuda/checksum.h"
#include "tests/gpu/model_under_test.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/unit/engine/cuda_harness.h"
#include "tests/unit/engine/runner_harness.h"

namespace baton {

class BlockHandoff : public CudaTest {
 protected:
  // Takes `bytes` of gathered blocks to where they are scattered from; in `stream`, or at once.
  using Carry = std::function<void(std::byte* from, std::byte* to, uint64_t bytes)>;

  // Tokens after the handoff equal those of the runner that read the prompt, and blocks have the same checksums.
  void ExpectSameTokens(device::MemoryKind staging, const Carry& carry) {
    const auto model = MakeModelUnderTest();
    const auto weights = UploadOrDie(*model, DType::kBF16, device_stream());
    CudaHarness prefill(weights, {.max_batch = 2}, 24), decode(weights, {.max_batch = 2}, 40);
    SequenceDriver::Sequence source, target;
    const std::vector<TokenId> prompt = RandomPrompt(150, model->config.vocab, 1);
    const TokenId first = Greedy(prefill.Append(source, prompt));

    const size_t count = source.blocks.size();
    const uint64_t block_bytes = prefill.layout().BytesPerBlock(), bytes = count * block_bytes;
    for (size_t i = 0; i < count; ++i) target.blocks.push_back(decode.TakeBlock());
    target.length = source.length;
    auto gathered = device::Memory::Allocate(staging, bytes), arrived = device::Memory::Allocate(staging, bytes);
    ASSERT_TRUE(gathered.ok() && arrived.ok());
    const BlockId *from = ToDevice(source.blocks), *to = ToDevice(target.blocks);
    const auto blocks = static_cast<int64_t>(count);
    const auto step = static_cast<int64_t>(block_bytes);
    Expect(cuda::CopyBlocks(prefill.pool().data(), from, gathered->data(), nullptr, blocks, step, stream()));
    carry(gathered->data(), arrived->data(), bytes);
    Expect(cuda::CopyBlocks(arrived->data(), nullptr, decode.pool().data(), to, blocks, step, stream()));
    uint64_t *before = NewDevice<uint64_t>(count), *after = NewDevice<uint64_t>(count);
    Expect(cuda::ChecksumBlocks(prefill.pool().data(), from, blocks, step, before, stream()));
    Expect(cuda::ChecksumBlocks(decode.pool().data(), to, blocks, step, after, stream()));
    ASSERT_EQ(ToHost(after, count), ToHost(before, count));

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
