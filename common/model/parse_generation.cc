#include "common/base/status.h"
#include "common/model/json_fields.h"
#include "common/model/parse_config.h"

namespace baton::model {
namespace {

absl::StatusOr<std::optional<double>> Within(const JsonFields& fields, std::string_view key, double least,
                                             double most) {
  BATON_ASSIGN_OR_RETURN(const auto value, fields.Number(key));
  if (value && !(*value >= least && *value <= most)) {
    return fields.Wrong(key, absl::StrFormat("a number from %g to %g", least, most));
  }
  return value;
}

}  // namespace

absl::Status ParseGeneration(const nlohmann::json& generation, const std::string& where, ModelConfig* out) {
  const JsonFields fields(generation, where);
  GenerationDefaults& defaults = out->generation;
  BATON_ASSIGN_OR_RETURN(defaults.temperature, Within(fields, "temperature", 0, 1e6));
  BATON_ASSIGN_OR_RETURN(defaults.top_p, Within(fields, "top_p", 0, 1));
  BATON_ASSIGN_OR_RETURN(defaults.min_p, Within(fields, "min_p", 0, 1));
  BATON_ASSIGN_OR_RETURN(defaults.repetition_penalty, Within(fields, "repetition_penalty", 1e-6, 1e6));
  BATON_ASSIGN_OR_RETURN(defaults.top_k, fields.Integer("top_k", -1, 1 << 30));
  BATON_ASSIGN_OR_RETURN(const auto sample, fields.Bool("do_sample"));
  if (sample.has_value() && !*sample) defaults.temperature = 0;
  if (!out->bos_id) {
    std::vector<TokenId> bos;
    BATON_RETURN_IF_ERROR(AddTokenIds(generation, "bos_token_id", where, &bos));
    if (!bos.empty()) out->bos_id = bos.front();
  }
  return AddTokenIds(generation, "eos_token_id", where, &out->eos_ids);
}

}  // namespace baton::model
