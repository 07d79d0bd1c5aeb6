#pragma once

// Token ids of one choice to text, one id at a time. Not thread safe; one object per choice.
//
// Concatenated deltas equal Tokenizer::Decode of the same ids. Every delta is valid UTF-8 made of whole characters; at
// most 3 bytes are held back, and only while they may still become a character. Bytes that cannot are replaced by
// U+FFFD, one for every maximal ill-formed part.

#include <memory>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/text/tokenizer.h"
#include "common/text/utf8.h"

namespace baton {

class Detokenizer {
 public:
  explicit Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, const DecodeOptions& options = {});

  // The text that `id` completes, perhaps none.
  std::string Add(TokenId id);

  // What is held back, now known to be incomplete: empty or one U+FFFD. Nothing may be added afterwards.
  std::string Finish();

  // Whether the first byte of `id` would belong to the character that is held back.
  bool ContinuesCharacter(TokenId id) const;

  // Bytes held back, 0 to 3.
  int pending_bytes() const { return decoder_.pending_bytes(); }

 private:
  std::string_view BytesOf(TokenId id) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  DecodeOptions options_;
  bool at_start_ = true;
  Utf8Decoder decoder_;
};

}  // namespace baton
