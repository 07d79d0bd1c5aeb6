#include "common/text/output_text.h"

#include <algorithm>
#include <utility>

#include "common/text/utf8.h"

namespace baton {
namespace {

DecodeOptions ToDecodeOptions(const OutputTextOptions& options) {
  return {.skip_special_tokens = options.skip_special_tokens, .strip_leading_space = options.strip_leading_space};
}

}  // namespace

OutputText::OutputText(std::shared_ptr<const Tokenizer> tokenizer, OutputTextOptions options)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      detokenizer_(std::move(tokenizer), ToDecodeOptions(options_)) {
  if (options_.stops && !options_.stops->stops().empty()) matcher_.emplace(options_.stops, options_.include_stop);
}

OutputDelta OutputText::Add(TokenId id) {
  if (ended_) return {};
  // A control token that is skipped never becomes text, so a stop string that spells one is met here.
  if (options_.skip_special_tokens && CanStop(token_count_ + 1) && tokenizer_->IsSpecial(id)) {
    const auto& stops = options_.stops->stops();
    const auto stop = std::find(stops.begin(), stops.end(), tokenizer_->TokenText(id));
    if (stop != stops.end()) {
      OutputDelta delta = AddStopToken(id);
      if (!matched_stop_) matched_stop_ = *stop;
      return delta;
    }
  }
  std::string visible = Match(Decode(id));
  return matched_stop_ ? End(std::move(visible)) : Release(std::move(visible));
}

OutputDelta OutputText::AddStopToken(TokenId id) {
  if (ended_) return {};
  const bool shown = options_.include_stop && !(options_.skip_special_tokens && tokenizer_->IsSpecial(id));
  if (!shown) {
    std::string visible = Flush();
    held_.push_back({{id, token_count_++, options_.first_text_offset + decoded_characters_}, decoded_characters_});
    return End(std::move(visible));
  }
  // Shown whatever it spells, so it is not searched.
  std::string visible = matcher_ ? matcher_->Finish() : "";
  visible += Decode(id);
  return End(visible + detokenizer_.Finish());
}

OutputDelta OutputText::Finish() {
  if (ended_) return {};
  return End(Flush());
}

bool OutputText::CanStop(int64_t token_count) const { return matcher_ && token_count > options_.min_tokens; }

std::string OutputText::Match(const std::string& text) {
  if (!CanStop(token_count_)) return text;
  std::string visible = matcher_->Add(text);
  if (matcher_->matched()) matched_stop_ = matcher_->matched_stop();
  return visible;
}

std::string OutputText::Flush() {
  std::string visible = Match(detokenizer_.Finish());
  if (matcher_ && !matched_stop_) visible += matcher_->Finish();
  return visible;
}

std::string OutputText::Decode(TokenId id) {
  // Held-back bytes that `id` does not continue become a U+FFFD before it.
  const bool after_replacement = detokenizer_.pending_bytes() > 0 && !detokenizer_.ContinuesCharacter(id);
  std::string text = detokenizer_.Add(id);
  const int64_t offset = decoded_characters_ + (after_replacement && !text.empty() ? 1 : 0);
  if (!text.empty()) {
    // Bytes that were held back, at most one character's, are the first character of `text`.
    for (auto held = held_.rbegin(); held != held_.rend() && held->text_end < 0; ++held) {
      held->text_end = decoded_characters_ + 1;
    }
  }
  decoded_characters_ += static_cast<int64_t>(CountCharacters(text));
  held_.push_back({{id, token_count_++, options_.first_text_offset + offset},
                   detokenizer_.pending_bytes() > 0 ? -1 : decoded_characters_});
  return text;
}

OutputDelta OutputText::Release(std::string visible) {
  OutputDelta delta;
  sent_characters_ += static_cast<int64_t>(CountCharacters(visible));
  delta.text = std::move(visible);
  while (!held_.empty() && held_.front().text_end >= 0 && held_.front().text_end <= sent_characters_) {
    delta.tokens.push_back(held_.front().token);
    held_.pop_front();
  }
  return delta;
}

OutputDelta OutputText::End(std::string visible) {
  ended_ = true;
  OutputDelta delta = Release(std::move(visible));
  // The rest has no visible text: it lies at the end.
  for (HeldToken& held : held_) {
    held.token.text_offset = std::min(held.token.text_offset, options_.first_text_offset + sent_characters_);
    delta.tokens.push_back(held.token);
  }
  held_.clear();
  return delta;
}

}  // namespace baton
