#pragma once

// A CPU runner with a pool of its own, and sequences that grow in it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/engine/cpu_runner.h"
#include "common/model/model.h"
#include "kernels/aligned_buffer.h"

namespace baton {

inline std::shared_ptr<const CpuWeights> PackOrDie(const model::Model& model,
                                                   WeightsFormat format = WeightsFormat::kAuto) {
  auto weights = PackCpuWeights(model, format, 2);
  if (!weights.ok()) ADD_FAILURE() << StatusMessage(weights.status());
  BATON_CHECK(weights.ok());
  return *weights;
}

class RunnerHarness {
 public:
  struct Sequence {
    std::vector<BlockId> blocks;
    uint32_t length = 0;  // positions whose keys and values are stored
  };
  // A sequence's part of a step.
  struct Part {
    Sequence* sequence;
    std::vector<TokenId> tokens;
    bool wants_logits = true;
  };

  // Memory that no sequence has written holds NaN.
  RunnerHarness(std::shared_ptr<const CpuWeights> weights, DType kv_dtype, uint32_t blocks,
                const CpuRunnerOptions& options = {}, uint32_t block_size = 16)
      : layout_(MakeKvLayout(weights->config, kv_dtype, block_size)), pool_(blocks * layout_.BytesPerBlock()) {
    std::memset(pool_.data(), 0xff, pool_.size());
    for (BlockId block = 0; block < blocks; ++block) free_.push_back(block);
    std::shuffle(free_.begin(), free_.end(), std::mt19937(blocks));
    auto runner = CpuRunner::Create(std::move(weights), layout_, {pool_.data(), pool_.size()}, options);
    if (!runner.ok()) ADD_FAILURE() << StatusMessage(runner.status());
    BATON_CHECK(runner.ok());
    runner_ = *std::move(runner);
  }

  // Appends to every part's sequence; logits (empty where unwanted) in the order of the parts.
  std::vector<std::vector<float>> Step(const std::vector<Part>& parts) {
    std::vector<StepSequence> batch;
    for (const Part& part : parts) {
      Sequence& sequence = *part.sequence;
      const auto end = static_cast<uint32_t>(sequence.length + part.tokens.size());
      while (sequence.blocks.size() < layout_.BlocksFor(end)) {
        BATON_CHECK(!free_.empty());
        sequence.blocks.push_back(free_.back());
        free_.pop_back();
      }
      batch.push_back({part.tokens, sequence.length, sequence.blocks, part.wants_logits});
      positions_run_ += part.tokens.size();
    }
    std::vector<std::span<float>> logits(batch.size());
    const absl::Status status = runner_->Step(batch, logits);
    EXPECT_TRUE(status.ok()) << StatusMessage(status);
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].sequence->length += static_cast<uint32_t>(parts[i].tokens.size());
      out.emplace_back(logits[i].begin(), logits[i].end());
    }
    return out;
  }

  // Appends `tokens` in chunks and returns the logits of the last one.
  std::vector<float> Append(Sequence& sequence, const std::vector<TokenId>& tokens, size_t chunk = 512) {
    std::vector<float> logits;
    for (size_t first = 0; first < tokens.size(); first += chunk) {
      const size_t end = std::min(first + chunk, tokens.size());
      logits = Step({{&sequence, {tokens.begin() + first, tokens.begin() + end}, end == tokens.size()}})[0];
    }
    return logits;
  }

  void Release(Sequence& sequence) {
    free_.insert(free_.end(), sequence.blocks.rbegin(), sequence.blocks.rend());
    sequence = {};
  }

  CpuRunner& runner() { return *runner_; }
  const KvLayout& layout() const { return layout_; }
  const std::byte* block(BlockId block) const { return pool_.data() + block * layout_.BytesPerBlock(); }
  uint64_t positions_run() const { return positions_run_; }

 private:
  const KvLayout layout_;
  AlignedBuffer pool_;
  std::vector<BlockId> free_;
  std::unique_ptr<CpuRunner> runner_;
  uint64_t positions_run_ = 0;
};

// Highest logit; the lower id on a tie.
inline TokenId Greedy(const std::vector<float>& logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace baton
