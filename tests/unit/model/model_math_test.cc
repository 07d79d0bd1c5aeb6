#include "common/model/model_math.h"

#include <gtest/gtest.h>

#include "tests/fakes/random_model.h"

namespace baton::model {
namespace {

TEST(ModelMath, Qwen25Shape) {
  const ModelConfig config = fakes::Qwen25Config();
  const ParameterCount count = CountParameters(config);
  EXPECT_EQ(count.total, 494'032'768u);
  EXPECT_EQ(count.embedding, 136'134'656u);
  EXPECT_EQ(count.head, 0u);
  EXPECT_EQ(count.attention_per_layer, 1'835'008u);
  EXPECT_EQ(count.feed_forward_per_layer, 13'074'432u);
  EXPECT_EQ(KvBytesPerToken(config, DType::kBF16), 12'288u);
  EXPECT_EQ(KvBytesPerToken(config, DType::kBF16, config.heads), 7 * 12'288u);
  EXPECT_EQ(KvBytesPerToken(config, DType::kF32, 1), 12'288u);
  EXPECT_EQ(KvBytesPerToken(config, DType::kI8), 6'528u);  // a scale for each of 2 x 24 x 2 heads
}

TEST(ModelMath, CountEqualsTheTensorsOfEveryArchitecture) {
  for (const char* architecture : {"Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"}) {
    for (const bool tied : {true, false}) {
      ModelConfig config = fakes::TinyConfig(architecture);
      config.tied_head = tied;
      const auto model = fakes::MakeRandomModel(config, 1, DType::kF32);
      EXPECT_EQ(WeightBytes(*model), 4 * CountParameters(config).total) << architecture;
    }
  }
}

}  // namespace
}  // namespace baton::model
