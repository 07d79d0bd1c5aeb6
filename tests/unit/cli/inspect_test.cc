#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "nlohmann/json.hpp"
#include "services/cli/inspect_report.h"
#include "tests/fakes/random_model.h"

namespace baton::cli {
namespace {

using testing::HasSubstr;

// Only the config counts here: no weights of that size are made.
model::Model Qwen25() {
  model::Model model;
  model.config = fakes::Qwen25Config();
  model.weights_format = "safetensors";
  return model;
}

TEST(Inspect, Qwen25Numbers) {
  const model::Model model = Qwen25();
  const auto report = Inspect(model, {.memory_gib = 10.63, .max_model_len = 32'768});
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string text = InspectText(*report);
  EXPECT_THAT(text, HasSubstr("494,032,768"));
  EXPECT_THAT(text, HasSubstr("grouped-query, 14 heads, 2 KV heads, 64 wide"));
  EXPECT_THAT(text, HasSubstr("12,288 bytes (12.0 KiB) in bf16"));
  EXPECT_THAT(text, HasSubstr("would need 86,016 bytes"));
  EXPECT_THAT(text, HasSubstr("would need 6,144 bytes"));
  EXPECT_THAT(text, HasSubstr("196,608 bytes (192.0 KiB), 16 tokens"));
  EXPECT_THAT(text, HasSubstr("28.35 sequences of 32,768"));
}

TEST(Inspect, WiderKvHalvesThePool) {
  const model::Model model = Qwen25();
  const auto narrow = Inspect(model, {.memory_gib = 1}),
             wide = Inspect(model, {.kv_dtype = DType::kF32, .memory_gib = 1});
  ASSERT_TRUE(narrow.ok() && wide.ok());
  EXPECT_EQ(narrow->pool->blocks, 5461u);
  EXPECT_EQ(wide->pool->blocks, 2730u);
}

TEST(Inspect, Int8KvCountsItsScales) {
  const model::Model model = Qwen25();
  const auto report = Inspect(model, {.kv_dtype = DType::kI8, .memory_gib = 1});
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string text = InspectText(*report);
  EXPECT_THAT(text, HasSubstr("6,528 bytes (6.4 KiB) in int8"));
  EXPECT_THAT(text, HasSubstr("would need 45,696 bytes"));
  EXPECT_THAT(text, HasSubstr("would need 3,264 bytes"));
}

TEST(Inspect, RefusesALengthTheModelCannotReach) {
  const model::Model model = Qwen25();
  EXPECT_EQ(Inspect(model, {.max_model_len = 1'000'000}).status().code(), absl::StatusCode::kInvalidArgument);
}

// Standard output and error of `baton inspect ARGUMENTS`, and its exit status.
std::pair<std::string, int> RunInspect(const std::string& arguments) {
  const std::string command = std::string(BATON_BIN_DIR) + "/baton inspect " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  for (size_t size = 0; (size = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, size);
  return {output, WEXITSTATUS(pclose(pipe))};
}

class InspectProgram : public testing::Test {
 protected:
  InspectProgram() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::path(testing::TempDir()) / ("baton_inspect_" + std::string(test->name()));
    std::filesystem::create_directories(directory_);
  }
  ~InspectProgram() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
};

TEST_F(InspectProgram, ReadsAModelFromDisk) {
  fakes::WriteRandomModel(directory_, fakes::TinyConfig(), 1);
  const auto [output, status] = RunInspect(directory_.string() + " --json --memory_gib 0.001");
  ASSERT_EQ(status, 0) << output;
  const auto json = nlohmann::json::parse(output);
  EXPECT_EQ(json["layers"], 2);
  EXPECT_EQ(json["kv_heads"], 2);
  EXPECT_EQ(json["parameters"]["total"], model::CountParameters(fakes::TinyConfig()).total);
  EXPECT_EQ(json["weights"]["format"], "safetensors");
  EXPECT_EQ(json["kv"]["bytes_per_token"], 2 * 2 * 2 * 16 * 2);
  EXPECT_EQ(json["kv"]["pool"]["blocks"], 1'073'741 / (256 * 16));
  EXPECT_EQ(json["has_tokenizer"], true);
  EXPECT_EQ(json["has_chat_template"], true);
  EXPECT_THAT(json["tokenizer"].get<std::string>(), HasSubstr("BPE"));
}

TEST_F(InspectProgram, ReadsGguf) {
  const std::string path = directory_ / "tiny.gguf";
  fakes::WriteRandomGguf(path, fakes::TinyConfig("LlamaForCausalLM"), 1);
  const auto [output, status] = RunInspect(path);
  ASSERT_EQ(status, 0) << output;
  EXPECT_THAT(output, HasSubstr("gguf"));
}

TEST_F(InspectProgram, MeasuresWhatAFormatCostsInPerplexity) {
  fakes::WriteRandomModel(directory_, fakes::TinyConfig(), 1);
  const std::string text = directory_ / "text.txt", arguments = directory_.string() + " --quality " + text;
  std::ofstream(text) << "The tide comes in twice a day, and twice a day it leaves.";
  const auto [f32, status] = RunInspect(arguments + " --weights f32 --json");
  ASSERT_EQ(status, 0) << f32;
  const auto same = nlohmann::json::parse(f32)["quality"];
  EXPECT_EQ(same["tokens"], 56);  // a byte each, but the first
  EXPECT_EQ(same["perplexity"], same["perplexity_f32"]);
  EXPECT_EQ(same["agreement"], 1.0);
  const auto [int4, int4_status] = RunInspect(arguments + " --weights int4 --json");
  ASSERT_EQ(int4_status, 0) << int4;
  const auto rounded = nlohmann::json::parse(int4)["quality"];
  EXPECT_EQ(rounded["perplexity_f32"], same["perplexity_f32"]);
  EXPECT_NE(rounded["perplexity"], rounded["perplexity_f32"]);
  EXPECT_THAT(RunInspect(arguments + " --weights int8").first, HasSubstr("weights int8: perplexity "));
}

TEST_F(InspectProgram, SaysWhatIsMissing) {
  const auto [output, status] = RunInspect(directory_.string() + "/nowhere");
  EXPECT_EQ(status, 1);
  EXPECT_THAT(output, testing::StartsWith("baton: "));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1);
}

}  // namespace
}  // namespace baton::cli
