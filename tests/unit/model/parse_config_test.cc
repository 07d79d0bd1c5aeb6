#include "common/model/parse_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"

namespace baton::model {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json Base(const std::string& architecture) {
  return {{"architectures", {architecture}},
          {"num_hidden_layers", 4},
          {"hidden_size", 64},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"intermediate_size", 128},
          {"vocab_size", 320},
          {"max_position_embeddings", 512}};
}

json With(json object, const json& more) {
  object.update(more);
  return object;
}

ModelConfig Parsed(const json& config, const json& generation = nullptr) {
  const auto parsed = ParseHuggingFaceConfig(config, generation, "dir");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->config : ModelConfig();
}

std::string Error(const json& config, const json& generation = nullptr) {
  const auto parsed = ParseHuggingFaceConfig(config, generation, "dir");
  EXPECT_FALSE(parsed.ok()) << config;
  return StatusMessage(parsed.status());
}

TEST(ParseConfig, Qwen25) {
  const json config = json::parse(R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
      "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896,
      "initializer_range": 0.02, "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21,
      "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
      "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "transformers_version": "4.43.1", "use_cache": true, "use_sliding_window": false,
      "vocab_size": 151936})");
  const json generation = json::parse(R"({"bos_token_id": 151643, "pad_token_id": 151643, "do_sample": true,
      "eos_token_id": [151645, 151643], "repetition_penalty": 1.1, "temperature": 0.7, "top_p": 0.8, "top_k": 20})");
  const ModelConfig parsed = Parsed(config, generation);
  EXPECT_EQ(parsed.head_dim, 64u);
  EXPECT_EQ(parsed.q_rows(), 896u);
  EXPECT_EQ(parsed.kv_rows(), 128u);
  EXPECT_TRUE(parsed.qkv_bias);
  EXPECT_FALSE(parsed.o_bias);
  EXPECT_FALSE(parsed.qk_norm);
  EXPECT_TRUE(parsed.tied_head);
  EXPECT_EQ(parsed.rope.theta, 1e6);
  EXPECT_EQ(parsed.max_length, 32768u);
  EXPECT_EQ(parsed.bos_id, 151643);
  EXPECT_THAT(parsed.eos_ids, ElementsAre(151643, 151645));
  EXPECT_THAT(parsed.windows, Each(0u));
  EXPECT_EQ(parsed.generation.temperature, 0.7);
  EXPECT_EQ(parsed.generation.top_k, 20);
  EXPECT_EQ(parsed.generation.repetition_penalty, 1.1);
  EXPECT_FALSE(parsed.generation.min_p.has_value());
}

TEST(ParseConfig, DoSampleFalseMeansGreedyByDefault) {
  EXPECT_EQ(Parsed(Base("LlamaForCausalLM"), {{"do_sample", false}, {"temperature", 0.6}}).generation.temperature, 0.0);
  EXPECT_EQ(Parsed(Base("LlamaForCausalLM"), {{"do_sample", true}, {"temperature", 0.6}}).generation.temperature, 0.6);
  EXPECT_FALSE(Parsed(Base("LlamaForCausalLM"), {{"eos_token_id", 2}}).generation.temperature.has_value());
}

TEST(ParseConfig, GenerationValuesAreChecked) {
  const json base = Base("LlamaForCausalLM");
  EXPECT_THAT(Error(base, {{"temperature", -1}}), AllOf(HasSubstr("generation_config.json"), HasSubstr("temperature")));
  EXPECT_THAT(Error(base, {{"top_p", 1.5}}), HasSubstr("1.5"));
  EXPECT_THAT(Error(base, {{"repetition_penalty", 0}}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(Error(base, {{"eos_token_id", -1}}), HasSubstr("eos_token_id"));
  EXPECT_THAT(Error(base, {{"eos_token_id", {2, "x"}}}), HasSubstr("eos_token_id"));
}

TEST(ParseConfig, HeadDimIsGivenOrDerivedOrTheArchitecturesDefault) {
  EXPECT_EQ(Parsed(Base("LlamaForCausalLM")).head_dim, 16u);
  EXPECT_EQ(Parsed(With(Base("LlamaForCausalLM"), {{"head_dim", 32}})).head_dim, 32u);
  EXPECT_EQ(Parsed(With(Base("MistralForCausalLM"), {{"head_dim", nullptr}})).head_dim, 16u);
  EXPECT_EQ(Parsed(Base("Qwen3ForCausalLM")).head_dim, 128u);
  EXPECT_THAT(Error(With(Base("LlamaForCausalLM"), {{"hidden_size", 66}})), AllOf(HasSubstr("66"), HasSubstr("4")));
}

TEST(ParseConfig, BiasAndNormsFollowTheArchitecture) {
  const ModelConfig llama = Parsed(With(Base("LlamaForCausalLM"), {{"attention_bias", true}}));
  EXPECT_TRUE(llama.qkv_bias && llama.o_bias && !llama.qk_norm);
  const ModelConfig qwen3 = Parsed(Base("Qwen3ForCausalLM"));
  EXPECT_TRUE(!qwen3.qkv_bias && !qwen3.o_bias && qwen3.qk_norm);
  EXPECT_FALSE(Parsed(With(Base("MistralForCausalLM"), {{"attention_bias", true}})).qkv_bias);
  EXPECT_FALSE(Parsed(With(Base("Qwen2ForCausalLM"), {{"attention_bias", true}})).o_bias);
}

TEST(ParseConfig, SlidingWindowOnlyWhereTheConfigUsesIt) {
  const auto windows = [](const std::string& architecture, const json& fields) {
    return Parsed(With(Base(architecture), fields)).windows;
  };
  EXPECT_THAT(windows("Qwen2ForCausalLM", {{"sliding_window", 100}}), ElementsAre(0, 0, 0, 0));
  const json upper = {{"use_sliding_window", true}, {"sliding_window", 100}, {"max_window_layers", 3}};
  EXPECT_THAT(windows("Qwen2ForCausalLM", upper), ElementsAre(0, 0, 0, 100));
  EXPECT_THAT(windows("Qwen3ForCausalLM", {{"use_sliding_window", true}, {"max_window_layers", 0}}),
              ElementsAre(4096, 4096, 4096, 4096));
  EXPECT_THAT(windows("Qwen2ForCausalLM", {{"use_sliding_window", true}, {"sliding_window", 100}}),
              ElementsAre(0, 0, 0, 0))
      << "28 full layers by default";
  const json types = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  EXPECT_THAT(windows("Qwen3ForCausalLM", With(upper, {{"layer_types", types}})), ElementsAre(100, 0, 100, 0));
  EXPECT_THAT(windows("MistralForCausalLM", json::object()), Each(4096u));
  EXPECT_THAT(windows("MistralForCausalLM", {{"sliding_window", 64}}), Each(64u));
  EXPECT_THAT(windows("MistralForCausalLM", {{"sliding_window", nullptr}}), Each(0u));
  EXPECT_THAT(windows("LlamaForCausalLM", {{"sliding_window", 64}}), Each(0u));
  EXPECT_THAT(Error(With(Base("Qwen2ForCausalLM"), {{"layer_types", types}})), HasSubstr("sliding_window"));
  EXPECT_THAT(Error(With(Base("Qwen2ForCausalLM"), {{"layer_types", {"full_attention"}}})), HasSubstr("4 entries"));
}

TEST(ParseConfig, UnsupportedModelsAreRefusedByName) {
  EXPECT_THAT(Error(Base("MixtralForCausalLM")),
              AllOf(HasSubstr("dir/config.json"), HasSubstr("'MixtralForCausalLM'"), HasSubstr("Qwen2ForCausalLM")));
  EXPECT_THAT(Error(With(Base("x"), {{"architectures", nullptr}})), HasSubstr("architectures"));
  EXPECT_THAT(Error(With(Base("LlamaForCausalLM"), {{"hidden_act", "gelu"}})), HasSubstr("'gelu'"));
  EXPECT_THAT(Error(With(Base("LlamaForCausalLM"), {{"mlp_bias", true}})), HasSubstr("mlp_bias"));
  EXPECT_THAT(Error(With(Base("LlamaForCausalLM"), {{"quantization_config", {{"quant_method", "gptq"}}}})),
              HasSubstr("gptq"));
}

TEST(ParseConfig, NumbersAreChecked) {
  const json base = Base("LlamaForCausalLM");
  for (const json& value : {json(0), json(-3), json(1.5), json("4"), json(uint64_t{1} << 63), json(1 << 30)}) {
    EXPECT_THAT(Error(With(base, {{"num_hidden_layers", value}})), HasSubstr("num_hidden_layers")) << value;
  }
  EXPECT_THAT(Error(With(base, {{"vocab_size", nullptr}})), AllOf(HasSubstr("vocab_size"), HasSubstr("missing")));
  EXPECT_THAT(Error(With(base, {{"num_key_value_heads", 3}})), AllOf(HasSubstr("4 heads"), HasSubstr("3")));
  EXPECT_THAT(Error(With(base, {{"head_dim", 15}})), HasSubstr("15"));
  EXPECT_THAT(Error(With(base, {{"rms_norm_eps", -1.0}})), HasSubstr("rms_norm_eps"));
}

}  // namespace
}  // namespace baton::model
