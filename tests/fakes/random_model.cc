#include "tests/fakes/random_model.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/status.h"
#include "common/model/assemble.h"
#include "common/model/byte_vocabulary.h"
#include "common/model/catalogue.h"
#include "common/model/random_tensors.h"
#include "common/model/shapes.h"
#include "common/model/write_config.h"
#include "tests/fakes/checkpoint_writer.h"

namespace baton::fakes {
namespace {

using model::FileFormat;
using model::ModelConfig;
using weights::TensorSource;

ModelConfig ShapeOf(std::string_view name) {
  auto config = model::FindShape(name);
  BATON_CHECK(config.ok());
  return *std::move(config);
}

}  // namespace

ModelConfig TinyConfig(const std::string& architecture) {
  ModelConfig config = ShapeOf("tiny");
  config.architecture = architecture;
  config.max_position_embeddings = config.max_length = 512;
  config.qkv_bias = architecture == "Qwen2ForCausalLM";
  config.qk_norm = architecture == "Qwen3ForCausalLM";
  config.windows.assign(config.layers, architecture == "MistralForCausalLM" ? 24 : 0);
  return config;
}

ModelConfig Qwen25Config() { return ShapeOf("qwen2.5-0.5b"); }

std::shared_ptr<const model::Model> MakeRandomModel(const ModelConfig& config, uint64_t seed, DType dtype) {
  weights::TensorMap tensors;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> memory;
  for (const TensorSource& source : model::RandomTensors(config, seed, {dtype, dtype, dtype})) {
    memory.push_back(std::make_shared<const std::vector<std::byte>>(BytesOf(source)));
    tensors[source.name] = {.name = source.name,
                            .dtype = source.dtype,
                            .dtype_name = absl::AsciiStrToUpper(std::string(DTypeName(source.dtype))),
                            .shape = source.shape,
                            .data = *memory.back()};
  }
  const auto architecture = model::FindArchitecture(FileFormat::kSafetensors, config.architecture);
  BATON_CHECK(architecture.ok());
  auto assembled = model::AssembleModel({config, *architecture}, tensors, nullptr);
  BATON_CHECK(assembled.ok());
  (*assembled)->memory.insert((*assembled)->memory.end(), memory.begin(), memory.end());
  return *assembled;
}

void WriteRandomModel(const std::string& directory, const ModelConfig& config, uint64_t seed,
                      const RandomModelOptions& options) {
  std::vector<TensorSource> tensors = model::RandomTensors(config, seed, {options.dtype, options.dtype, options.dtype});
  if (options.write_head && config.tied_head) {
    TensorSource head = tensors.front();
    head.name = "lm_head.weight";
    tensors.push_back(std::move(head));
  }
  if (options.shards == 0) {
    WriteSafetensors(directory + "/model.safetensors", tensors);
  } else {
    WriteShardedSafetensors(directory, tensors, options.shards);
  }
  WriteFile(directory + "/config.json", model::ConfigJson(config));
  if (!options.tokenizer) return;
  WriteFile(directory + "/tokenizer.json", model::ByteTokenizerJson(config.vocab));
  WriteFile(directory + "/tokenizer_config.json", model::ByteTokenizerConfigJson());
}

void WriteRandomGguf(const std::string& path, ModelConfig config, uint64_t seed, DType dtype,
                     const std::vector<float>& rope_divisors) {
  if (!rope_divisors.empty()) {
    config.rope.kind = model::RopeKind::kPlain;
    config.rope.frequency_divisors = rope_divisors;
  }
  WriteGguf(path, model::GgufOf(config, model::RandomTensors(config, seed, {dtype, DType::kF32, dtype})));
}

}  // namespace baton::fakes
