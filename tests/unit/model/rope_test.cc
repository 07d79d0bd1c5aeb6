#include "common/model/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/status.h"
#include "common/model/parse_config.h"
#include "tests/fakes/checkpoint_writer.h"
#include "tests/fakes/random_model.h"

namespace baton::model {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<ModelConfig> Parse(uint32_t max_positions, json fields) {
  ModelConfig config;
  config.layers = config.hidden = config.heads = config.kv_heads = 1;
  config.head_dim = 64;
  config.max_position_embeddings = max_positions;
  BATON_RETURN_IF_ERROR(ParseHuggingFaceRope(fields, "config.json", &config));
  BATON_RETURN_IF_ERROR(CheckConfig(config, "config.json"));
  return config;
}

RopeTable Table(uint32_t max_positions, const json& fields) {
  const auto config = Parse(max_positions, fields);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? MakeRopeTable(config->rope, 64) : RopeTable{std::vector<float>(32), 0};
}

std::string Error(const json& fields) {
  const auto config = Parse(4096, fields);
  EXPECT_FALSE(config.ok()) << fields;
  return StatusMessage(config.status());
}

void ExpectClose(float actual, double expected) { EXPECT_NEAR(actual, expected, 2e-6 * expected); }

const json kLlama32 = {{"factor", 32.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192},
                       {"rope_type", "llama3"}};
const json kYarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};

json With(json object, const std::string& key, json value) {
  object[key] = std::move(value);
  return object;
}

void ExpectLlama32(const RopeTable& table) {
  ASSERT_EQ(table.inverse_frequencies.size(), 32u);
  for (int pair = 0; pair < 32; ++pair) {
    const double plain = std::pow(500000.0, -2.0 * pair / 64);
    if (pair <= 14) ExpectClose(table.inverse_frequencies[pair], plain);
    if (pair >= 18) ExpectClose(table.inverse_frequencies[pair], plain / 32);
  }
  ExpectClose(table.inverse_frequencies[15], 0.0012905479);
  ExpectClose(table.inverse_frequencies[16], 0.00042955680);
  ExpectClose(table.inverse_frequencies[17], 0.000097082878);
  EXPECT_EQ(table.attention_scale, 1.0f);
}

TEST(Rope, PlainFrequenciesAreThetaPowers) {
  const RopeTable table = Table(4096, {{"rope_theta", 1e6}});
  for (int pair = 0; pair < 32; ++pair) ExpectClose(table.inverse_frequencies[pair], std::pow(1e6, -pair / 32.0));
  ExpectClose(Table(4096, json::object()).inverse_frequencies[16], 0.01);
}

TEST(Rope, MDL_06_Llama3ScalingIsAppliedUnderEitherKey) {
  ExpectLlama32(Table(131072, {{"rope_theta", 500000.0}, {"rope_scaling", kLlama32}}));
  json old_key = kLlama32;
  old_key.erase("rope_type");
  old_key["type"] = "llama3";
  ExpectLlama32(Table(131072, {{"rope_theta", 500000.0}, {"rope_scaling", old_key}}));
}

TEST(Rope, MDL_06_RopeParametersOfTransformers5AreReadAlike) {
  ExpectLlama32(Table(131072, {{"rope_parameters", With(kLlama32, "rope_theta", 500000.0)}}));
  const RopeTable plain = Table(4096, {{"rope_parameters", {{"rope_theta", 1e6}, {"rope_type", "default"}}}});
  ExpectClose(plain.inverse_frequencies[16], 0.001);
}

TEST(Rope, MDL_06_GgufDivisorsEqualLlama3Scaling) {
  const RopeTable wanted = Table(131072, {{"rope_theta", 500000.0}, {"rope_scaling", kLlama32}});
  ModelConfig config = fakes::TinyConfig("LlamaForCausalLM");
  config.head_dim = 64;
  config.rope.theta = 500000;
  std::vector<float> divisors;
  for (int pair = 0; pair < 32; ++pair) {
    divisors.push_back(static_cast<float>(std::pow(500000.0, -2.0 * pair / 64) /
                                          static_cast<double>(wanted.inverse_frequencies[pair])));
  }
  fakes::TemporaryDirectory directory;
  fakes::WriteRandomGguf(directory / "model.gguf", config, 1, DType::kF32, divisors);
  const auto model = LoadModel(directory / "model.gguf");
  ASSERT_TRUE(model.ok()) << model.status();
  ExpectLlama32((*model)->rope);
}

TEST(Rope, MDL_06_UnknownOrIncompleteTypesAreRefusedByName) {
  for (const char* type : {"dynamic", "longrope", "su", "mrope", "ntk", ""}) {
    EXPECT_THAT(Error({{"rope_scaling", {{"type", type}, {"factor", 2.0}}}}),
                AllOf(HasSubstr("config.json"), HasSubstr("'" + std::string(type) + "'"), HasSubstr("llama3")));
  }
  EXPECT_THAT(Error({{"rope_scaling", {{"type", "yarn"}, {"rope_type", "linear"}, {"factor", 2.0}}}}),
              AllOf(HasSubstr("yarn"), HasSubstr("linear")));
  EXPECT_THAT(Error({{"rope_scaling", {{"type", "linear"}}}}), HasSubstr("factor"));
  EXPECT_THAT(Error({{"rope_scaling", {{"type", "llama3"}, {"factor", 8.0}}}}), HasSubstr("low_freq_factor"));
  EXPECT_THAT(Error({{"rope_scaling", "yarn"}}), HasSubstr("not an object"));
  EXPECT_THAT(Error({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}), HasSubstr("by layer"));
  EXPECT_THAT(Error({{"partial_rotary_factor", 0.5}}), HasSubstr("0.5"));
  EXPECT_THAT(Error({{"rope_scaling", With(kLlama32, "high_freq_factor", 1.0)}}), HasSubstr("high_freq_factor 1"));
  EXPECT_THAT(Error({{"rope_scaling", With(kYarn, "factor", 1e300)}}), HasSubstr("1e+300"));
  EXPECT_THAT(Error({{"rope_scaling", With(kYarn, "factor", 0.5)}}), HasSubstr("0.5"));
  EXPECT_THAT(Error({{"rope_theta", -1.0}}), HasSubstr("-1"));
}

// Frequencies as transformers 5 computes them.
TEST(Rope, MDL_07_YarnBlendsAndScales) {
  const RopeTable table = Table(32768, {{"rope_theta", 1e6}, {"rope_scaling", kYarn}});
  EXPECT_NEAR(table.attention_scale, 1.1386294, 1e-6);
  ExpectClose(table.inverse_frequencies[11], 0.00865964312);
  ExpectClose(table.inverse_frequencies[12], 0.00515479548);
  ExpectClose(table.inverse_frequencies[16], 0.000583333371);
  ExpectClose(table.inverse_frequencies[19], 9.12806499e-05);
  ExpectClose(table.inverse_frequencies[20], 4.44569851e-05);
  ExpectClose(table.inverse_frequencies[31], 3.84981632e-07);
  const RopeTable exact = Table(32768, {{"rope_theta", 1e6}, {"rope_scaling", With(kYarn, "truncate", false)}});
  ExpectClose(exact.inverse_frequencies[12], 0.00551727042);
  ExpectClose(exact.inverse_frequencies[19], 8.95792473e-05);
}

TEST(Rope, MDL_07_StatedYarnScalesReplaceTheComputedOne) {
  EXPECT_EQ(Table(32768, {{"rope_scaling", With(kYarn, "attention_factor", 1.0)}}).attention_scale, 1.0f);
  EXPECT_EQ(Table(32768, {{"rope_scaling", With(kYarn, "attention_factor", 1.5)}}).attention_scale, 1.5f);
  json pair = With(With(With(kYarn, "factor", 16.0), "mscale", 1.0), "mscale_all_dim", 1.0);
  EXPECT_EQ(Table(32768, {{"rope_scaling", pair}}).attention_scale, 1.0f);
  pair.erase("mscale_all_dim");
  EXPECT_NEAR(Table(32768, {{"rope_scaling", pair}}).attention_scale, 1.2772589, 1e-6);
}

TEST(Rope, MDL_07_MissingOriginalLengthIsTheModelsOwn) {
  json missing = kYarn;
  missing.erase("original_max_position_embeddings");
  const json fields = {{"rope_theta", 1e6}, {"rope_scaling", missing}};
  EXPECT_EQ(Table(32768, fields).inverse_frequencies,
            Table(32768, {{"rope_theta", 1e6}, {"rope_scaling", kYarn}}).inverse_frequencies);
  EXPECT_EQ(Parse(32768, fields)->rope.original_max_position_embeddings, 32768u);
}

TEST(Rope, MDL_07_LinearDividesPositionsAndHasNoScale) {
  const RopeTable plain = Table(4096, {{"rope_theta", 1e4}});
  const RopeTable linear = Table(4096, {{"rope_theta", 1e4}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}});
  EXPECT_EQ(linear.attention_scale, 1.0f);
  for (int pair = 0; pair < 32; ++pair) {
    EXPECT_EQ(linear.inverse_frequencies[pair], plain.inverse_frequencies[pair] / 2);
  }
}

TEST(Rope, LengthFollowsTheScaling) {
  EXPECT_EQ(Parse(32768, json::object())->max_length, 32768u);
  EXPECT_EQ(Parse(32768, {{"rope_scaling", kYarn}})->max_length, 131072u);
  EXPECT_EQ(Parse(131072, {{"rope_scaling", kYarn}})->max_length, 131072u);
  EXPECT_EQ(Parse(131072, {{"rope_scaling", kLlama32}})->max_length, 131072u);
  EXPECT_EQ(Parse(4096, {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}})->max_length, 8192u);
}

}  // namespace
}  // namespace baton::model
