// Logits and greedy tokens equal to those of Hugging Face transformers, for every tiny checkpoint of tests/golden.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/weights/safetensors.h"
#include "tests/unit/engine/runner_harness.h"

namespace baton {
namespace {

using Json = nlohmann::json;

std::string GoldenPath(const std::string& name) { return std::string(BATON_SOURCE_DIR) + "/tests/golden/" + name; }

Json ReadJson(const std::string& path) { return Json::parse(std::ifstream(path)); }

std::shared_ptr<const model::Model> LoadOrDie(const std::string& path) {
  auto model = model::LoadModel(path);
  if (!model.ok()) ADD_FAILURE() << StatusMessage(model.status());
  BATON_CHECK(model.ok());
  return *model;
}

// Expected logits [positions][vocab] of one prompt.
std::vector<std::vector<float>> ExpectedLogits(const std::string& path, size_t prompt) {
  auto tensors = weights::ReadSafetensorsFile(path);
  BATON_CHECK(tensors.ok());
  const weights::Tensor& tensor = tensors->at("prompt_" + std::to_string(prompt) + ".logits");
  std::vector<std::vector<float>> rows(tensor.shape[0], std::vector<float>(tensor.shape[1]));
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(rows[i].data(), tensor.data.data() + i * rows[i].size() * sizeof(float),
                rows[i].size() * sizeof(float));
  }
  return rows;
}

void ExpectClose(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double highest = 0, difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    highest = std::max(highest, std::abs(double{expected[i]}));
    difference = std::max(difference, std::abs(double{actual[i]} - expected[i]));
  }
  EXPECT_LE(difference, 1e-4 * highest);
}

// Logits at the listed positions: the prompt is appended piece by piece.
void ExpectLogits(RunnerHarness& harness, const Json& test, const std::vector<std::vector<float>>& expected) {
  RunnerHarness::Sequence sequence;
  const auto prompt = test["prompt"].get<std::vector<TokenId>>();
  const auto positions = test["positions"].get<std::vector<size_t>>();
  for (size_t i = 0; i < positions.size(); ++i) {
    const std::vector<float> logits =
        harness.Append(sequence, {prompt.begin() + sequence.length, prompt.begin() + positions[i] + 1});
    ExpectClose(logits, expected[i]);
  }
  harness.Release(sequence);
}

void Penalise(std::vector<float>& logits, const std::vector<TokenId>& seen, float penalty) {
  std::vector<bool> done(logits.size());
  for (const TokenId token : seen) {
    if (done[token]) continue;
    done[token] = true;
    logits[token] = logits[token] > 0 ? logits[token] / penalty : logits[token] * penalty;
  }
}

// Greedy answer through the KV cache, with the margin of each choice.
std::vector<TokenId> Generate(RunnerHarness& harness, const std::vector<TokenId>& prompt, size_t count, float penalty,
                              std::vector<float>* logprobs = nullptr) {
  RunnerHarness::Sequence sequence;
  std::vector<TokenId> seen = prompt, answer;
  std::vector<float> logits = harness.Append(sequence, prompt);
  while (true) {
    const std::vector<float> raw = logits;
    Penalise(logits, seen, penalty);
    answer.push_back(Greedy(logits));
    seen.push_back(answer.back());
    if (logprobs != nullptr) {
      double sum = 0;
      for (const float logit : raw) sum += std::exp(double{logit} - raw[answer.back()]);
      logprobs->push_back(static_cast<float>(-std::log(sum)));
    }
    if (answer.size() == count) break;
    logits = harness.Append(sequence, {answer.back()});
  }
  harness.Release(sequence);
  return answer;
}

class GoldenCheckpoint : public testing::TestWithParam<std::string> {};

TEST_P(GoldenCheckpoint, LogitsAndGreedyTokensAreThoseOfTransformers) {
  const std::string folder = GoldenPath("models/" + GetParam());
  RunnerHarness harness(PackOrDie(*LoadOrDie(folder)), DType::kF32, 16);
  const Json expected = ReadJson(folder + "/expected.json");
  for (size_t i = 0; i < expected["cases"].size(); ++i) {
    SCOPED_TRACE("prompt " + std::to_string(i));
    const Json& test = expected["cases"][i];
    ExpectLogits(harness, test, ExpectedLogits(folder + "/expected.safetensors", i));
    const auto greedy = test["greedy"].get<std::vector<TokenId>>();
    std::vector<float> logprobs;
    EXPECT_EQ(Generate(harness, test["prompt"].get<std::vector<TokenId>>(), greedy.size(),
                       expected["repetition_penalty"].get<float>(), &logprobs),
              greedy);
    const auto expected_logprobs = test["logprobs"].get<std::vector<float>>();
    for (size_t k = 0; k < greedy.size(); ++k) EXPECT_NEAR(logprobs[k], expected_logprobs[k], 2e-4) << k;
  }
}

std::vector<std::string> Checkpoints() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenPath("models"))) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenCheckpoint, testing::ValuesIn(Checkpoints()), TestName);

class GoldenGguf : public testing::TestWithParam<std::string> {};

TEST_P(GoldenGguf, MDL_11_LogitsEqualThoseOfTheSafetensorsCheckpoint) {
  const std::string folder = GoldenPath("models/" + GetParam());
  RunnerHarness gguf(PackOrDie(*LoadOrDie(folder + ".gguf")), DType::kF32, 16);
  RunnerHarness safetensors(PackOrDie(*LoadOrDie(folder)), DType::kF32, 16);
  EXPECT_NE(gguf.runner().numerics_hash(), safetensors.runner().numerics_hash());
  const Json expected = ReadJson(folder + "/expected.json");
  for (size_t i = 0; i < expected["cases"].size(); ++i) {
    SCOPED_TRACE("prompt " + std::to_string(i));
    const Json& test = expected["cases"][i];
    ExpectLogits(gguf, test, ExpectedLogits(folder + "/expected.safetensors", i));
    const auto prompt = test["prompt"].get<std::vector<TokenId>>();
    EXPECT_EQ(Generate(gguf, prompt, 24, 1.0f), Generate(safetensors, prompt, 24, 1.0f));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenGguf, testing::Values("qwen2", "llama-multi-query", "llama3"), TestName);

TEST(GoldenQuantised, Q8LogitsAreThoseOfTheDequantisedWeights) {
  RunnerHarness harness(PackOrDie(*LoadOrDie(GoldenPath("models/llama3.q8_0.gguf")), WeightsFormat::kF32), DType::kF32,
                        16);
  const Json expected = ReadJson(GoldenPath("models/llama3/expected.json"));
  for (size_t i = 0; i < expected["cases"].size(); ++i) {
    RunnerHarness::Sequence sequence;
    const std::vector<float> logits =
        harness.Append(sequence, expected["cases"][i]["prompt"].get<std::vector<TokenId>>());
    ExpectClose(logits, ExpectedLogits(GoldenPath("models/llama3.q8_0.expected.safetensors"), i)[0]);
    harness.Release(sequence);
  }
}

// Needs the real file (deploy/local/get-model.sh smollm2).
TEST(GoldenSmolLm2, GreedyTokensAreThoseOfTransformersOnTheDequantisedWeights) {
  const char* path = std::getenv("BATON_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "BATON_SMOLLM2_GGUF is not set";
  RunnerHarness harness(PackOrDie(*LoadOrDie(path), WeightsFormat::kF32), DType::kF32, 64);
  const Json expected = ReadJson(GoldenPath("smollm2.json"));
  for (const Json& test : expected["cases"]) {
    auto context = test["prompt_ids"].get<std::vector<TokenId>>();
    const auto tokens = test["tokens"].get<std::vector<TokenId>>();
    const auto best = test["best_logits"].get<std::vector<float>>();
    const auto margins = test["margins"].get<std::vector<float>>();
    int ties = 0;
    RunnerHarness::Sequence sequence;
    std::vector<float> logits = harness.Append(sequence, context);
    for (size_t k = 0; k < tokens.size(); ++k) {
      EXPECT_NEAR(logits[tokens[k]], best[k], 1e-3 * std::abs(best[k])) << k;
      if (Greedy(logits) != tokens[k]) {
        EXPECT_LT(margins[k], 1e-3f * std::abs(best[k])) << "token " << k << " differs and is no tie";
        ++ties;
      }
      logits = harness.Append(sequence, {tokens[k]});  // go on along the expected answer
    }
    EXPECT_LE(ties, 1);
    std::cout << tokens.size() << " tokens, " << ties << " ties: " << test["text"].get<std::string>().substr(0, 60)
              << "...\n";
    harness.Release(sequence);
  }
}

}  // namespace
}  // namespace baton
