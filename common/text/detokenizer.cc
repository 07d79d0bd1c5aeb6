#include "common/text/detokenizer.h"

#include <string_view>
#include <utility>

namespace baton {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, const DecodeOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {
  at_start_ = options.strip_leading_space && tokenizer_->DropsLeadingSpace();
}

std::string Detokenizer::Add(TokenId id) {
  std::string text;
  if (options_.skip_special_tokens && tokenizer_->IsSpecial(id)) return text;
  std::string_view bytes = tokenizer_->TokenBytes(id);
  if (at_start_ && !bytes.empty()) {
    if (bytes.front() == ' ') bytes.remove_prefix(1);
    at_start_ = false;
  }
  decoder_.Add(bytes, &text);
  return text;
}

std::string Detokenizer::Finish() {
  std::string text;
  decoder_.Finish(&text);
  return text;
}

}  // namespace baton
