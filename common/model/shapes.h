#pragma once

// Shapes of models that are published, to be filled with random weights.

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/model/model_config.h"

namespace baton::model {

// Names in the order of the catalogue: "tiny", "smollm2-135m", "qwen2.5-0.5b", ...
std::span<const std::string_view> ShapeNames();

// The config of that model, under its Hugging Face architecture. Begin and end ids are those of ByteVocabulary, since
// that is the tokenizer a random model gets. NOT_FOUND lists the names.
absl::StatusOr<ModelConfig> FindShape(std::string_view name);

}  // namespace baton::model
