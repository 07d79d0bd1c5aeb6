#include "common/text/detokenizer.h"

#include <utility>

namespace baton {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, const DecodeOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {
  at_start_ = options.strip_leading_space && tokenizer_->DropsLeadingSpace();
}

std::string_view Detokenizer::BytesOf(TokenId id) const {
  if (options_.skip_special_tokens && tokenizer_->IsSpecial(id)) return {};
  return tokenizer_->TokenBytes(id);
}

std::string Detokenizer::Add(TokenId id) {
  std::string_view bytes = BytesOf(id);
  if (at_start_ && !bytes.empty()) {
    if (bytes.front() == ' ') bytes.remove_prefix(1);
    at_start_ = false;
  }
  std::string text;
  decoder_.Add(bytes, &text);
  return text;
}

bool Detokenizer::ContinuesCharacter(TokenId id) const {
  const std::string_view bytes = BytesOf(id);
  return !bytes.empty() && decoder_.MayContinueWith(bytes.front());
}

std::string Detokenizer::Finish() {
  std::string text;
  decoder_.Finish(&text);
  return text;
}

}  // namespace baton
