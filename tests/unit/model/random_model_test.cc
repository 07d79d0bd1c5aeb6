// The fakes themselves: what engine tests rely on.

#include "tests/fakes/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"
#include "tests/fakes/checkpoint_writer.h"

namespace baton::model {
namespace {

using ::testing::HasSubstr;

std::vector<float> Rows(const TensorView& tensor) {
  std::vector<float> out(tensor.rows * tensor.cols);
  EXPECT_TRUE(ReadRows(tensor, 0, tensor.rows, out.data()).ok());
  return out;
}

TEST(RandomModel, EveryArchitectureLoadsAndEqualsTheOneInMemory) {
  for (const char* architecture : {"Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"}) {
    SCOPED_TRACE(architecture);
    const ModelConfig config = fakes::TinyConfig(architecture);
    const auto in_memory = fakes::MakeRandomModel(config, 7);
    fakes::TemporaryDirectory directory;
    fakes::WriteRandomModel(directory.path(), config, 7);
    const auto loaded = LoadModel(directory.path());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->weights_identity, in_memory->weights_identity);
    EXPECT_EQ(Rows((*loaded)->layers[1].k), Rows(in_memory->layers[1].k));
    EXPECT_EQ((*loaded)->config.windows, config.windows);
    EXPECT_THAT((*loaded)->text.tokenizer_json, HasSubstr("<|im_end|>"));
    EXPECT_THAT((*loaded)->text.chat_template, HasSubstr("add_generation_prompt"));
  }
}

TEST(RandomModel, AnotherSeedIsAnotherModel) {
  const ModelConfig config = fakes::TinyConfig();
  EXPECT_NE(fakes::MakeRandomModel(config, 1)->weights_identity, fakes::MakeRandomModel(config, 2)->weights_identity);
}

TEST(RandomModel, FormatsOfOneSeedHoldEqualWeights) {
  const ModelConfig config = fakes::TinyConfig();
  const auto bf16 = fakes::MakeRandomModel(config, 3, DType::kBF16);
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    EXPECT_EQ(Rows(bf16->layers[0].down), Rows(fakes::MakeRandomModel(config, 3, dtype)->layers[0].down));
  }
}

}  // namespace
}  // namespace baton::model
