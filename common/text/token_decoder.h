#pragma once

// The "decoder" section of tokenizer.json, as a rule per token: from a token's spelling to the bytes it adds to a text.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/json_reader.h"

namespace baton {

struct TokenDecoder {
  bool byte_level = false;                                        // spellings use GPT-2's byte alphabet
  std::vector<std::pair<std::string, std::string>> replacements;  // in order, e.g. U+2581 by a space
  bool byte_fallback = false;                                     // "<0xE6>" is the byte E6
  bool drops_leading_space = false;                               // one, at the very start of a text

  // Null: `otherwise`. UNIMPLEMENTED names an unknown type.
  static absl::StatusOr<TokenDecoder> FromJson(const Json* json, const TokenDecoder& otherwise);

  // `literal`: an added token, which is not spelled in the byte alphabet.
  std::string BytesOf(std::string_view spelling, bool literal) const;
};

// The byte that "<0xNN>" names; -1 if `spelling` is no such token.
int ByteOfFallbackToken(std::string_view spelling);

}  // namespace baton
