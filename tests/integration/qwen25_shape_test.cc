// The numbers everything else is sized by, on a model of Qwen2.5-0.5B's shape with random weights.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "common/model/model_math.h"
#include "tests/fakes/random_model.h"
#include "tests/unit/engine/runner_harness.h"

namespace baton {
namespace {

using Sequence = RunnerHarness::Sequence;

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

std::vector<TokenId> Prompt(size_t count, uint32_t vocab) {
  std::mt19937 generator(42);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(generator() % vocab);
  return tokens;
}

// Head slots of the sequence's blocks that hold numbers; the harness fills unused memory with NaN.
struct Written {
  uint32_t layers = 0, kv_heads = 0, head_dim = 0;
  uint32_t positions = 0;  // the same for every layer, k and v, and head
};

Written FindWritten(const RunnerHarness& harness, const Sequence& sequence) {
  const KvLayout& layout = harness.layout();
  Written written{layout.layers, layout.kv_heads, layout.head_dim, 0};
  const auto elements_written = [&](uint32_t position, uint32_t layer, uint32_t kv, uint32_t head) {
    const auto* piece = reinterpret_cast<const uint16_t*>(harness.block(sequence.blocks[position / 16]) +
                                                          layout.HeadOffset(0, layer, kv, head));
    const uint32_t slot = position % 16;
    uint32_t count = 0;
    for (uint32_t e = 0; e < layout.head_dim; ++e) {
      count += piece[kv == 0 ? e * layout.block_size + slot : slot * layout.head_dim + e] != 0xffff;
    }
    return count;
  };
  for (uint32_t position = 0; position < sequence.blocks.size() * 16; ++position) {
    uint32_t count = 0;
    for (uint32_t layer = 0; layer < layout.layers; ++layer) {
      for (uint32_t kv = 0; kv < 2; ++kv) {
        for (uint32_t head = 0; head < layout.kv_heads; ++head) count += elements_written(position, layer, kv, head);
      }
    }
    if (count == 0) continue;
    EXPECT_EQ(count, 2 * layout.layers * layout.kv_heads * layout.head_dim) << "position " << position;
    EXPECT_EQ(written.positions, position) << "a hole";
    ++written.positions;
  }
  return written;
}

TEST(Qwen25Shape, HasTheParametersOfQwen25) {
  const model::ParameterCount count = model::CountParameters(fakes::Qwen25Config());
  EXPECT_EQ(count.total, 494'032'768u);
  EXPECT_EQ(count.embedding, 136'134'656u);
  EXPECT_EQ(count.head, 0u);
  EXPECT_EQ(count.attention_per_layer, 1'835'008u);
  EXPECT_EQ(count.feed_forward_per_layer, 13'074'432u);
}

TEST(Qwen25Shape, KvSizesAtSixteenBit) {
  const KvLayout layout = MakeKvLayout(fakes::Qwen25Config(), DType::kBF16);
  EXPECT_EQ(layout.BytesPerToken(), 12'288u);
  EXPECT_EQ(layout.BytesPerBlock(), 196'608u);
  EXPECT_EQ(43 * layout.BytesPerToken(), 528'384u);
  EXPECT_EQ(42 * layout.BytesPerToken(), 504 * kKiB);
  EXPECT_EQ(4'096 * layout.BytesPerToken(), 48 * kMiB);
  EXPECT_EQ(32'768 * layout.BytesPerToken(), 384 * kMiB);
  EXPECT_NEAR(10.63 * 1024 * kMiB / (32'768.0 * layout.BytesPerToken()), 28.35, 0.005);
}

// One test, because making half a billion weights takes a while.
TEST(Qwen25Shape, DecodingWithTheCacheEqualsFullRecomputation) {
  const model::ModelConfig config = fakes::Qwen25Config();
  const auto weights = PackOrDie(*fakes::MakeRandomModel(config, 1, DType::kBF16));
  uint64_t matrix_parameters = weights->embedding.bytes() / 2;
  for (const CpuLayerWeights& layer : weights->layers) {
    EXPECT_EQ((layer.qkv.bytes() + layer.o.bytes()) / 2, 1'835'008u);
    EXPECT_EQ((layer.gate_up.bytes() + layer.down.bytes()) / 2, 13'074'432u);
    matrix_parameters += (layer.qkv.bytes() + layer.o.bytes() + layer.gate_up.bytes() + layer.down.bytes()) / 2;
  }
  // What is left are norms and biases.
  EXPECT_EQ(494'032'768u - matrix_parameters, 24 * (2 * 896 + 896 + 2 * 128) + 896u);

  RunnerHarness harness(weights, DType::kBF16, 16, {.max_step_tokens = 64, .max_batch = 4});
  Sequence cached;
  std::vector<TokenId> context = Prompt(42, config.vocab);
  std::vector<float> logits = harness.Append(cached, context);
  Written written = FindWritten(harness, cached);
  EXPECT_EQ(written.layers, 24u);
  EXPECT_EQ(written.kv_heads, 2u);
  EXPECT_EQ(written.head_dim, 64u);
  EXPECT_EQ(written.positions, 42u);
  for (int step = 0; step < 4; ++step) {
    context.push_back(Greedy(logits));
    logits = harness.Append(cached, {context.back()});
    if (step == 0) {
      written = FindWritten(harness, cached);
      EXPECT_EQ(written.positions, 43u);
      EXPECT_EQ(written.positions * harness.layout().BytesPerToken(), 528'384u);
    }
    Sequence fresh;
    const std::vector<float> recomputed = harness.Append(fresh, context);
    EXPECT_EQ(Greedy(recomputed), Greedy(logits));
    EXPECT_EQ(recomputed, logits) << "step " << step;
    harness.Release(fresh);
  }
}

TEST(KvCache, AHundredTokensCost110PositionsWithItAnd6050Without) {
  const auto weights = PackOrDie(*fakes::MakeRandomModel(fakes::TinyConfig(), 1, DType::kBF16));
  const std::vector<TokenId> prompt = Prompt(11, weights->config.vocab);

  RunnerHarness with_cache(weights, DType::kBF16, 16);
  Sequence sequence;
  std::vector<TokenId> answer = {Greedy(with_cache.Append(sequence, prompt))};
  while (answer.size() < 100) answer.push_back(Greedy(with_cache.Append(sequence, {answer.back()})));
  EXPECT_EQ(with_cache.positions_run(), 110u);

  RunnerHarness without_cache(weights, DType::kBF16, 16);
  std::vector<TokenId> context = prompt, recomputed;
  while (recomputed.size() < 100) {
    Sequence fresh;
    recomputed.push_back(Greedy(without_cache.Append(fresh, context)));
    context.push_back(recomputed.back());
    without_cache.Release(fresh);
  }
  EXPECT_EQ(without_cache.positions_run(), 6'050u);
  EXPECT_EQ(recomputed, answer);
}

}  // namespace
}  // namespace baton
