#pragma once

// The model that a test of tests/gpu runs: the shape that the environment names, with random weights.

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/model/shapes.h"
#include "tests/gpu/shaped_model.h"
#include "tests/kernels/random_floats.h"

namespace baton {

inline std::string ModelUnderTest() {
  const char* name = std::getenv("BATON_GPU_MODEL");
  return name == nullptr ? "tiny" : name;
}

inline std::shared_ptr<const model::Model> MakeModelUnderTest() {
  auto config = model::FindShape(ModelUnderTest());
  if (!config.ok()) ADD_FAILURE() << StatusMessage(config.status());
  BATON_CHECK(config.ok());
  config->max_length = 1024;  // the pools and tables of these tests are small
  auto model =
      MakeShapedModel(*config, 1 + TestSeed(), DType::kBF16, static_cast<int>(std::thread::hardware_concurrency()));
  if (!model.ok()) ADD_FAILURE() << StatusMessage(model.status());
  BATON_CHECK(model.ok());
  return *std::move(model);
}

inline std::vector<TokenId> RandomPrompt(size_t count, uint32_t vocab, uint32_t seed) {
  std::mt19937 random(seed + TestSeed());
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab);
  return tokens;
}

}  // namespace baton
