#pragma once

// The pre-tokenizers that GGUF files name (tokenizer.ggml.pre) instead of carrying them.

#include <string_view>

#include "common/base/status.h"
#include "common/text/pre_tokenizer.h"

namespace baton {

struct GgufPreTokenizer {
  PreTokenizer pre_tokenizer;
  bool ignore_merges = false;
  bool add_bos = false;  // unless the file says otherwise
  bool nfc = false;      // the model's original tokenizer normalizes, so its GGUF does, too
};

// Empty and "default" are GPT-2's. UNIMPLEMENTED names an unknown one: a near guess would degrade answers silently.
absl::StatusOr<GgufPreTokenizer> MakeGgufPreTokenizer(std::string_view name);

}  // namespace baton
