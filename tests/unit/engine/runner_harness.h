#pragma once

// A CPU runner with a pool of its own, and sequences that grow in it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/engine/cpu_runner.h"
#include "common/model/model.h"
#include "kernels/aligned_buffer.h"
#include "tests/unit/engine/sequence_driver.h"

namespace baton {

inline std::shared_ptr<const CpuWeights> PackOrDie(const model::Model& model,
                                                   WeightsFormat format = WeightsFormat::kAuto) {
  auto weights = PackCpuWeights(model, format, 2);
  if (!weights.ok()) ADD_FAILURE() << StatusMessage(weights.status());
  BATON_CHECK(weights.ok());
  return *weights;
}

class RunnerHarness final : public SequenceDriver {
 public:
  // Memory that no sequence has written holds NaN.
  RunnerHarness(std::shared_ptr<const CpuWeights> weights, DType kv_dtype, uint32_t blocks,
                const CpuRunnerOptions& options = {}, uint32_t block_size = 16)
      : SequenceDriver(MakeKvLayout(weights->config, kv_dtype, block_size), blocks),
        pool_(blocks * layout_.BytesPerBlock()) {
    std::memset(pool_.data(), 0xff, pool_.size());
    auto runner = CpuRunner::Create(std::move(weights), layout_, {pool_.data(), pool_.size()}, options);
    if (!runner.ok()) ADD_FAILURE() << StatusMessage(runner.status());
    BATON_CHECK(runner.ok());
    runner_ = *std::move(runner);
    Drive(runner_.get());
  }

  CpuRunner& runner() { return *runner_; }
  const std::byte* block(BlockId block) const { return pool_.data() + block * layout_.BytesPerBlock(); }

 private:
  AlignedBuffer pool_;
  std::unique_ptr<CpuRunner> runner_;
};

// Highest logit; the lower id on a tie.
inline TokenId Greedy(const std::vector<float>& logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace baton
