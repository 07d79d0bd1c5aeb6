#include "services/router/served_model.h"

#include "common/base/status.h"
#include "common/rpc/convert.h"

namespace baton {

absl::StatusOr<std::shared_ptr<const ServedModel>> ServedModel::Build(const internal::v1::Identity& identity,
                                                                      const internal::v1::GetModelTextResponse& text) {
  const TextAssets assets = FromProto(text);
  auto model = std::make_shared<ServedModel>(ServedModel{.chat_template = FailedPrecondition("not loaded")});
  model->name = identity.model();
  model->numerics = NumericsHash{identity.numerics_hash()};
  model->max_model_len = identity.max_model_len();
  model->vocab_size = identity.vocab_size();
  model->block_size = identity.block_size();
  model->defaults = text.defaults();
  BATON_ASSIGN_OR_RETURN(model->tokenizer, Tokenizer::Create(assets));
  std::map<std::string, std::string> special_tokens;
  const auto add = [&](const char* name, std::optional<TokenId> id) {
    if (id) special_tokens[name] = std::string(model->tokenizer->TokenText(*id));
  };
  add("bos_token", model->tokenizer->bos_id());
  add("eos_token", model->tokenizer->eos_id());
  model->chat_template = ChatTemplate::Parse(assets.chat_template, std::move(special_tokens));
  return model;
}

}  // namespace baton
