#pragma once

// Tokenizer and chat template of a model, taken from its files as they are; common/text understands them.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/text_assets.h"
#include "common/weights/gguf.h"

namespace baton::model {

// tokenizer.json, tokenizer_config.json and chat_template.jinja of a directory; what is not there stays empty.
absl::StatusOr<TextAssets> ReadTextAssets(const std::string& directory);

// The tokenizer.* keys. A file without tokenizer.ggml.model gives empty assets.
absl::StatusOr<TextAssets> TextAssetsOf(const weights::GgufFile& gguf);

}  // namespace baton::model
