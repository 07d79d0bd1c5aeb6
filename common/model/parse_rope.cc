#include <cmath>

#include "common/base/status.h"
#include "common/model/json_fields.h"
#include "common/model/parse_config.h"
#include "common/weights/tensor.h"

namespace baton::model {
namespace {

constexpr int64_t kMostPositions = int64_t{1} << 30;

absl::StatusOr<std::string> RopeTypeOf(const JsonFields& fields) {
  BATON_ASSIGN_OR_RETURN(const auto type, fields.String("rope_type"));
  BATON_ASSIGN_OR_RETURN(const auto old_type, fields.String("type"));
  if (type && old_type && *type != *old_type) {
    return InvalidArgument("%s: rope_type is %s but type is %s", fields.where(), weights::Quoted(*type),
                           weights::Quoted(*old_type));
  }
  return type.value_or(old_type.value_or("default"));
}

absl::StatusOr<RopeKind> RopeKindOf(const std::string& type, const std::string& where) {
  if (type == "default") return RopeKind::kPlain;
  if (type == "linear") return RopeKind::kLinear;
  if (type == "llama3") return RopeKind::kLlama3;
  if (type == "yarn") return RopeKind::kYarn;
  return Unimplemented("%s: rope type %s is not supported; supported are default, linear, llama3, yarn", where,
                       weights::Quoted(type));
}

absl::StatusOr<double> Required(const JsonFields& fields, std::string_view key) {
  BATON_ASSIGN_OR_RETURN(const auto value, fields.Number(key));
  if (!value) return fields.Wrong(key, "a number, which this rope type needs");
  return *value;
}

absl::Status ParseScaling(const JsonFields& fields, uint32_t max_position_embeddings, RopeConfig* rope) {
  BATON_ASSIGN_OR_RETURN(rope->factor, Required(fields, "factor"));
  BATON_ASSIGN_OR_RETURN(const auto original, fields.Integer("original_max_position_embeddings", 1, kMostPositions));
  rope->original_max_position_embeddings = static_cast<uint32_t>(original.value_or(max_position_embeddings));
  if (rope->kind == RopeKind::kLlama3) {
    BATON_ASSIGN_OR_RETURN(rope->low_freq_factor, Required(fields, "low_freq_factor"));
    BATON_ASSIGN_OR_RETURN(rope->high_freq_factor, Required(fields, "high_freq_factor"));
  }
  if (rope->kind == RopeKind::kYarn) {
    BATON_ASSIGN_OR_RETURN(rope->attention_factor, fields.Number("attention_factor"));
    BATON_ASSIGN_OR_RETURN(rope->mscale, fields.Number("mscale"));
    BATON_ASSIGN_OR_RETURN(rope->mscale_all_dim, fields.Number("mscale_all_dim"));
    BATON_ASSIGN_OR_RETURN(const auto fast, fields.Number("beta_fast"));
    BATON_ASSIGN_OR_RETURN(const auto slow, fields.Number("beta_slow"));
    BATON_ASSIGN_OR_RETURN(const auto truncate, fields.Bool("truncate"));
    rope->beta_fast = fast.value_or(32);
    rope->beta_slow = slow.value_or(1);
    rope->truncate = truncate.value_or(true);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseHuggingFaceRope(const nlohmann::json& config, const std::string& where, ModelConfig* out) {
  RopeConfig& rope = out->rope;
  const JsonFields top(config, where);
  BATON_ASSIGN_OR_RETURN(const auto theta, top.Number("rope_theta"));
  BATON_ASSIGN_OR_RETURN(const auto rotary, top.Number("partial_rotary_factor"));
  rope.theta = theta.value_or(10000);
  out->max_length = out->max_position_embeddings;
  if (rotary.value_or(1) != 1) return Unimplemented("%s: partial_rotary_factor %g is not supported", where, *rotary);

  const char* key = top.Find("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const nlohmann::json* object = top.Find(key);
  if (object == nullptr) return absl::OkStatus();
  if (!object->is_object()) return top.Wrong(key, "an object");
  for (const auto& [name, value] : object->items()) {
    if (value.is_object()) return Unimplemented("%s: %s differs by layer (%s)", where, key, weights::Quoted(name));
  }
  const JsonFields fields(*object, where + ": " + key);
  BATON_ASSIGN_OR_RETURN(const std::string type, RopeTypeOf(fields));
  BATON_ASSIGN_OR_RETURN(rope.kind, RopeKindOf(type, fields.where()));
  BATON_ASSIGN_OR_RETURN(const auto inner_theta, fields.Number("rope_theta"));
  BATON_ASSIGN_OR_RETURN(const auto inner_rotary, fields.Number("partial_rotary_factor"));
  if (inner_theta) rope.theta = *inner_theta;
  if (inner_rotary.value_or(1) != 1) {
    return Unimplemented("%s: partial_rotary_factor %g is not supported", fields.where(), *inner_rotary);
  }
  if (rope.kind == RopeKind::kPlain) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(ParseScaling(fields, out->max_position_embeddings, &rope));
  // Llama 3 configs state the extended length; the others state what the model was trained with.
  double length = out->max_position_embeddings;
  if (rope.kind == RopeKind::kLinear) length *= rope.factor;
  if (rope.kind == RopeKind::kYarn) length = rope.original_max_position_embeddings * rope.factor;
  if (!(length >= 1 && length <= static_cast<double>(kMostPositions))) {
    return InvalidArgument("%s: factor %g gives a length of %g positions", fields.where(), rope.factor, length);
  }
  out->max_length = static_cast<uint32_t>(std::llround(length));
  return absl::OkStatus();
}

}  // namespace baton::model
