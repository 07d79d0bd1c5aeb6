#include "common/rpc/convert.h"

#include <algorithm>

namespace baton {

void ToProto(const SamplingParams& params, internal::v1::Sampling* out) {
  out->set_max_tokens(params.max_tokens);
  out->set_min_tokens(params.min_tokens);
  out->set_temperature(params.temperature);
  out->set_top_p(params.top_p);
  out->set_top_k(params.top_k);
  out->set_min_p(params.min_p);
  out->set_repetition_penalty(params.repetition_penalty);
  out->set_presence_penalty(params.presence_penalty);
  out->set_frequency_penalty(params.frequency_penalty);
  out->set_seed(params.seed);
  out->mutable_stop_token_ids()->Assign(params.stop_token_ids.begin(), params.stop_token_ids.end());
  out->mutable_eos_token_ids()->Assign(params.eos_token_ids.begin(), params.eos_token_ids.end());
  out->set_ignore_eos(params.ignore_eos);
  for (const auto& [id, bias] : params.logit_bias) (*out->mutable_logit_bias())[id] = bias;
  if (params.logprobs) out->set_logprobs(*params.logprobs);
}

SamplingParams FromProto(const internal::v1::Sampling& in) {
  SamplingParams params;
  params.max_tokens = in.max_tokens();
  params.min_tokens = in.min_tokens();
  params.temperature = in.temperature();
  params.top_p = in.top_p();
  params.top_k = in.top_k();
  params.min_p = in.min_p();
  params.repetition_penalty = in.repetition_penalty();
  params.presence_penalty = in.presence_penalty();
  params.frequency_penalty = in.frequency_penalty();
  params.seed = in.seed();
  params.stop_token_ids.assign(in.stop_token_ids().begin(), in.stop_token_ids().end());
  params.eos_token_ids.assign(in.eos_token_ids().begin(), in.eos_token_ids().end());
  params.ignore_eos = in.ignore_eos();
  params.logit_bias.assign(in.logit_bias().begin(), in.logit_bias().end());
  // A map's order is not the same in two processes.
  std::sort(params.logit_bias.begin(), params.logit_bias.end());
  if (in.has_logprobs()) params.logprobs = in.logprobs();
  return params;
}

namespace {

internal::v1::TokenFinish ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return internal::v1::TOKEN_FINISH_STOP;
    case FinishReason::kLength:
      return internal::v1::TOKEN_FINISH_LENGTH;
    case FinishReason::kError:
      return internal::v1::TOKEN_FINISH_ERROR;
    case FinishReason::kNone:
    case FinishReason::kCancelled:
      break;
  }
  return internal::v1::TOKEN_FINISH_UNSPECIFIED;
}

FinishReason FromProto(internal::v1::TokenFinish finish) {
  switch (finish) {
    case internal::v1::TOKEN_FINISH_STOP:
      return FinishReason::kStop;
    case internal::v1::TOKEN_FINISH_LENGTH:
      return FinishReason::kLength;
    case internal::v1::TOKEN_FINISH_ERROR:
      return FinishReason::kError;
    default:
      return FinishReason::kNone;
  }
}

}  // namespace

void ToProto(uint32_t choice, uint32_t index, const SampledToken& token, internal::v1::Token* out) {
  out->set_choice(choice);
  out->set_index(index);
  out->set_id(token.id);
  out->set_logprob(token.logprob);
  for (const TopLogprob& top : token.top) {
    auto* entry = out->add_top();
    entry->set_id(top.id);
    entry->set_logprob(top.logprob);
  }
  out->set_finish(ToProto(token.finish));
}

SampledToken FromProto(const internal::v1::Token& in) {
  SampledToken token;
  token.id = in.id();
  token.logprob = in.logprob();
  for (const auto& entry : in.top()) token.top.push_back({entry.id(), entry.logprob()});
  token.finish = FromProto(in.finish());
  return token;
}

void ToProto(const TextAssets& assets, internal::v1::GetModelTextResponse* out) {
  out->set_tokenizer_json(assets.tokenizer_json);
  out->set_tokenizer_config_json(assets.tokenizer_config_json);
  out->set_chat_template(assets.chat_template);
  if (!assets.gguf) return;
  const GgufVocabulary& in = *assets.gguf;
  auto* gguf = out->mutable_gguf();
  gguf->set_model(in.model);
  gguf->set_pre(in.pre);
  for (const std::string& token : in.tokens) gguf->add_tokens(token);
  gguf->mutable_scores()->Assign(in.scores.begin(), in.scores.end());
  gguf->mutable_types()->Assign(in.types.begin(), in.types.end());
  for (const std::string& merge : in.merges) gguf->add_merges(merge);
  if (in.bos_id) gguf->set_bos_id(*in.bos_id);
  if (in.eos_id) gguf->set_eos_id(*in.eos_id);
  if (in.unknown_id) gguf->set_unknown_id(*in.unknown_id);
  if (in.add_bos) gguf->set_add_bos(*in.add_bos);
  if (in.add_eos) gguf->set_add_eos(*in.add_eos);
  if (in.add_space_prefix) gguf->set_add_space_prefix(*in.add_space_prefix);
}

TextAssets FromProto(const internal::v1::GetModelTextResponse& in) {
  TextAssets assets;
  assets.tokenizer_json = in.tokenizer_json();
  assets.tokenizer_config_json = in.tokenizer_config_json();
  assets.chat_template = in.chat_template();
  if (!in.has_gguf()) return assets;
  GgufVocabulary gguf;
  gguf.model = in.gguf().model();
  gguf.pre = in.gguf().pre();
  gguf.tokens.assign(in.gguf().tokens().begin(), in.gguf().tokens().end());
  gguf.scores.assign(in.gguf().scores().begin(), in.gguf().scores().end());
  gguf.types.assign(in.gguf().types().begin(), in.gguf().types().end());
  gguf.merges.assign(in.gguf().merges().begin(), in.gguf().merges().end());
  if (in.gguf().has_bos_id()) gguf.bos_id = in.gguf().bos_id();
  if (in.gguf().has_eos_id()) gguf.eos_id = in.gguf().eos_id();
  if (in.gguf().has_unknown_id()) gguf.unknown_id = in.gguf().unknown_id();
  if (in.gguf().has_add_bos()) gguf.add_bos = in.gguf().add_bos();
  if (in.gguf().has_add_eos()) gguf.add_eos = in.gguf().add_eos();
  if (in.gguf().has_add_space_prefix()) gguf.add_space_prefix = in.gguf().add_space_prefix();
  assets.gguf = std::move(gguf);
  return assets;
}

}  // namespace baton
