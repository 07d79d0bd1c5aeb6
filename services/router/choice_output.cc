#include "services/router/choice_output.h"

#include "common/base/status.h"

namespace baton {
namespace {

void Append(OutputDelta& to, OutputDelta from) {
  to.text += from.text;
  to.tokens.insert(to.tokens.end(), from.tokens.begin(), from.tokens.end());
}

}  // namespace

ChoiceOutput::ChoiceOutput(uint32_t prompt_index, uint32_t index, std::shared_ptr<const Tokenizer> tokenizer,
                           OutputTextOptions options, bool logprobs)
    : prompt_index_(prompt_index),
      index_(index),
      tokenizer_(tokenizer),
      wants_logprobs_(logprobs),
      text_(std::move(tokenizer), std::move(options)) {}

absl::StatusOr<ChoiceOutput::Accepted> ChoiceOutput::Accept(uint32_t token_index, SampledToken token) {
  Accepted accepted;
  if (ended_ || token_index < tokens_.size()) return accepted;
  if (token_index > tokens_.size()) {
    return Internal("choice %d: token %d came, token %d is missing", index_, token_index, tokens_.size());
  }
  if (token.finish == FinishReason::kError) {
    return Internal("choice %d: the model gave no usable logits for token %d", index_, token_index);
  }
  accepted.fresh = true;
  tokens_.push_back(token.id);
  const FinishReason finish = token.finish;
  const TokenId id = token.id;
  if (wants_logprobs_) held_.push_back(std::move(token));

  OutputDelta delta = finish == FinishReason::kStop ? text_.AddStopToken(id) : text_.Add(id);
  const bool stopped = text_.ended();
  if (!stopped && finish == FinishReason::kLength) Append(delta, text_.Finish());
  ended_ = stopped || finish != FinishReason::kNone;
  if (delta.empty() && !ended_) return accepted;

  accepted.delta = ToProto(delta);
  if (ended_) {
    accepted.stopped_by_text = finish == FinishReason::kNone;
    accepted.delta->set_finish_reason(stopped ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
    if (text_.matched_stop()) accepted.delta->set_matched_stop(*text_.matched_stop());
    if (finish == FinishReason::kStop) accepted.delta->set_matched_stop_token_id(id);
  }
  return accepted;
}

v1::ChoiceDelta ChoiceOutput::ToProto(const OutputDelta& delta) {
  v1::ChoiceDelta out;
  out.set_prompt_index(prompt_index_);
  out.set_index(index_);
  out.set_token_index(released_);
  out.set_text(delta.text);
  for (const OutputToken& token : delta.tokens) {
    out.add_token_ids(token.id);
    if (!wants_logprobs_) continue;
    const SampledToken& sampled = held_[static_cast<size_t>(token.index) - released_];
    auto* entry = out.add_logprobs();
    entry->set_token_id(token.id);
    entry->set_token(tokenizer_->Decode(std::vector{token.id}, {false, false}));
    entry->set_logprob(sampled.logprob);
    entry->set_text_offset(static_cast<uint32_t>(token.text_offset));
    for (const TopLogprob& top : sampled.top) {
      auto* alternative = entry->add_top();
      alternative->set_token_id(top.id);
      alternative->set_token(tokenizer_->Decode(std::vector{top.id}, {false, false}));
      alternative->set_logprob(top.logprob);
    }
  }
  const auto count = static_cast<uint32_t>(delta.tokens.size());
  released_ += count;
  if (wants_logprobs_) held_.erase(held_.begin(), held_.begin() + count);
  return out;
}

}  // namespace baton
