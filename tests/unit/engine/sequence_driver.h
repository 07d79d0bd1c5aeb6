#pragma once

// Sequences that grow in a runner's pool, step by step: whichever runner it is.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/engine/runner.h"
#include "common/kv/layout.h"

namespace baton {

class SequenceDriver {
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
    std::span<StepSample> samples = {};
  };

  // Appends to every part's sequence; logits (empty where unwanted) in the order of the parts.
  std::vector<std::vector<float>> Step(const std::vector<Part>& parts) {
    std::vector<StepSequence> batch;
    for (const Part& part : parts) {
      Sequence& sequence = *part.sequence;
      const auto end = static_cast<uint32_t>(sequence.length + part.tokens.size());
      while (sequence.blocks.size() < layout_.BlocksFor(end)) sequence.blocks.push_back(TakeBlock());
      batch.push_back({part.tokens, sequence.length, sequence.blocks, part.wants_logits, part.samples});
      positions_run_ += part.tokens.size();
    }
    std::vector<std::span<float>> logits(batch.size());
    const absl::Status status = driven_->Step(batch, logits);
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

  BlockId TakeBlock() {
    BATON_CHECK(!free_.empty());
    const BlockId block = free_.back();
    free_.pop_back();
    return block;
  }
  void Release(Sequence& sequence) {
    free_.insert(free_.end(), sequence.blocks.rbegin(), sequence.blocks.rend());
    sequence = {};
  }

  const KvLayout& layout() const { return layout_; }
  uint64_t positions_run() const { return positions_run_; }

 protected:
  SequenceDriver(const KvLayout& layout, uint32_t blocks) : layout_(layout), free_(blocks) {
    std::iota(free_.begin(), free_.end(), BlockId{0});
    std::shuffle(free_.begin(), free_.end(), std::mt19937(blocks));
  }
  ~SequenceDriver() = default;
  // Before the first step; it outlives the driver's steps.
  void Drive(Runner* runner) { driven_ = runner; }

  const KvLayout layout_;

 private:
  std::vector<BlockId> free_;
  Runner* driven_ = nullptr;
  uint64_t positions_run_ = 0;
};

}  // namespace baton
