#pragma once

// From config.json or GGUF metadata to ModelConfig. What the decoder cannot do is refused by name.

#include <string>

#include "absl/status/statusor.h"
#include "common/model/catalogue.h"
#include "common/model/model_config.h"
#include "common/weights/gguf.h"
#include "nlohmann/json.hpp"

namespace baton::model {

struct ParsedConfig {
  ModelConfig config;  // without dtype and, for GGUF, frequency_divisors
  Architecture architecture;
};

// `config` and `generation` are the objects of config.json and generation_config.json (null if there is none).
absl::StatusOr<ParsedConfig> ParseHuggingFaceConfig(const nlohmann::json& config, const nlohmann::json& generation,
                                                    const std::string& directory);

absl::StatusOr<ParsedConfig> ParseGgufConfig(const weights::GgufFile& gguf);

// rope_scaling of transformers 4 or rope_parameters of 5. Needs max_position_embeddings; sets rope and max_length.
absl::Status ParseHuggingFaceRope(const nlohmann::json& config, const std::string& where, ModelConfig* out);

// generation_config.json: sampling defaults and further end ids.
absl::Status ParseGeneration(const nlohmann::json& generation, const std::string& where, ModelConfig* out);

// What no field of any file may break, whatever the format.
absl::Status CheckConfig(const ModelConfig& config, const std::string& where);

// bos and eos: an integer or a list of them is added to `ids`.
absl::Status AddTokenIds(const nlohmann::json& object, const std::string& key, const std::string& where,
                         std::vector<TokenId>* ids);

}  // namespace baton::model
