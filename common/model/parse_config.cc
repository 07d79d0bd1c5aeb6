#include "common/model/parse_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/model/json_fields.h"
#include "common/weights/tensor.h"

namespace baton::model {
namespace {

constexpr int64_t kMostLayers = 4096, kMostHeads = 4096, kMostHeadDim = 4096, kMostFeatures = 1 << 24,
                  kMostPositions = 1 << 30;

absl::StatusOr<uint32_t> Required(const JsonFields& fields, std::string_view key, int64_t most) {
  BATON_ASSIGN_OR_RETURN(const auto value, fields.Integer(key, 1, most));
  if (!value) return fields.Wrong(key, absl::StrFormat("an integer from 1 to %d", most));
  return static_cast<uint32_t>(*value);
}

absl::StatusOr<Architecture> ArchitectureOf(const JsonFields& fields) {
  const nlohmann::json* list = fields.Find("architectures");
  if (list == nullptr || !list->is_array() || list->size() != 1 || !list->front().is_string()) {
    return fields.Wrong("architectures", "a list of one name");
  }
  absl::StatusOr<Architecture> found = FindArchitecture(FileFormat::kSafetensors, list->front().get<std::string>());
  if (!found.ok()) return WithContext(found.status(), fields.where());
  return found;
}

absl::Status RefuseUnsupported(const JsonFields& fields) {
  BATON_ASSIGN_OR_RETURN(const auto activation, fields.String("hidden_act"));
  if (activation.value_or("silu") != "silu") {
    return Unimplemented("%s: hidden_act %s is not supported, only silu", fields.where(), weights::Quoted(*activation));
  }
  BATON_ASSIGN_OR_RETURN(const auto mlp_bias, fields.Bool("mlp_bias"));
  if (mlp_bias.value_or(false)) return Unimplemented("%s: mlp_bias is not supported", fields.where());
  if (const nlohmann::json* quantization = fields.Find("quantization_config")) {
    return Unimplemented("%s: quantization_config %s is not supported; quantised weights are read from GGUF",
                         fields.where(),
                         weights::Quoted(quantization->is_object() && quantization->contains("quant_method")
                                             ? (*quantization)["quant_method"].dump()
                                             : "?"));
  }
  return absl::OkStatus();
}

// layer_types, where it is written, says it layer by layer; otherwise Qwen counts full layers from below.
absl::Status ParseWindows(const JsonFields& fields, const Architecture& architecture, ModelConfig* out) {
  out->windows.assign(out->layers, 0);
  if (architecture.window == Window::kNever) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const auto stated, fields.Integer("sliding_window", 1, kMostPositions));
  uint32_t window = static_cast<uint32_t>(stated.value_or(architecture.default_window));
  if (fields.IsNull("sliding_window")) window = 0;
  uint32_t first = 0;
  if (architecture.window == Window::kUpperLayers) {
    BATON_ASSIGN_OR_RETURN(const auto use, fields.Bool("use_sliding_window"));
    BATON_ASSIGN_OR_RETURN(const auto full_layers, fields.Integer("max_window_layers", 0, kMostLayers));
    if (!use.value_or(false)) window = 0;
    first = static_cast<uint32_t>(full_layers.value_or(28));
  }
  const nlohmann::json* types = fields.Find("layer_types");
  if (types != nullptr && (!types->is_array() || types->size() != out->layers)) {
    return InvalidArgument("%s: layer_types is not a list of %d entries", fields.where(), out->layers);
  }
  for (uint32_t layer = 0; layer < out->layers; ++layer) {
    bool sliding = window > 0 && layer >= first;
    if (types != nullptr) {
      const nlohmann::json& type = (*types)[layer];
      if (type != "full_attention" && type != "sliding_attention") {
        return Unimplemented("%s: layer_types[%d] is %s", fields.where(), layer, weights::Quoted(type.dump()));
      }
      sliding = type == "sliding_attention";
      if (sliding && window == 0) {
        return InvalidArgument("%s: layer_types[%d] is sliding_attention, but no sliding_window is in use",
                               fields.where(), layer);
      }
    }
    if (sliding) out->windows[layer] = window;
  }
  return absl::OkStatus();
}

absl::Status ParseShape(const JsonFields& fields, const Architecture& architecture, ModelConfig* out) {
  BATON_ASSIGN_OR_RETURN(out->layers, Required(fields, "num_hidden_layers", kMostLayers));
  BATON_ASSIGN_OR_RETURN(out->hidden, Required(fields, "hidden_size", kMostFeatures));
  BATON_ASSIGN_OR_RETURN(out->heads, Required(fields, "num_attention_heads", kMostHeads));
  BATON_ASSIGN_OR_RETURN(out->intermediate, Required(fields, "intermediate_size", kMostFeatures));
  BATON_ASSIGN_OR_RETURN(out->vocab, Required(fields, "vocab_size", kMostFeatures));
  BATON_ASSIGN_OR_RETURN(const auto kv_heads, fields.Integer("num_key_value_heads", 1, kMostHeads));
  BATON_ASSIGN_OR_RETURN(const auto head_dim, fields.Integer("head_dim", 2, kMostHeadDim));
  BATON_ASSIGN_OR_RETURN(const auto positions, fields.Integer("max_position_embeddings", 1, kMostPositions));
  BATON_ASSIGN_OR_RETURN(const auto eps, fields.Number("rms_norm_eps"));
  out->kv_heads = static_cast<uint32_t>(kv_heads.value_or(out->heads));
  if (!head_dim && architecture.default_head_dim == 0 && out->hidden % out->heads != 0) {
    return InvalidArgument("%s: hidden_size %d is no multiple of num_attention_heads %d", fields.where(), out->hidden,
                           out->heads);
  }
  const uint32_t derived = architecture.default_head_dim ? architecture.default_head_dim : out->hidden / out->heads;
  out->head_dim = static_cast<uint32_t>(head_dim.value_or(derived));
  out->max_position_embeddings = static_cast<uint32_t>(positions.value_or(architecture.default_positions));
  out->rms_norm_eps = static_cast<float>(eps.value_or(1e-6));
  return absl::OkStatus();
}

}  // namespace

absl::Status AddTokenIds(const nlohmann::json& object, const std::string& key, const std::string& where,
                         std::vector<TokenId>* ids) {
  const JsonFields fields(object, where);
  const nlohmann::json* value = fields.Find(key);
  if (value == nullptr) return absl::OkStatus();
  const nlohmann::json list = value->is_array() ? *value : nlohmann::json::array({*value});
  for (const nlohmann::json& id : list) {
    // A negative number becomes a large unsigned one.
    if (!id.is_number_integer() || id.get<uint64_t>() >= kMostFeatures) return fields.Wrong(key, "a token id");
    ids->push_back(id.get<TokenId>());
  }
  return absl::OkStatus();
}

absl::Status CheckConfig(const ModelConfig& config, const std::string& where) {
  if (config.heads % config.kv_heads != 0) {
    return InvalidArgument("%s: %d heads are no multiple of %d key-value heads", where, config.heads, config.kv_heads);
  }
  if (config.head_dim % 2 != 0) return InvalidArgument("%s: head_dim %d is odd", where, config.head_dim);
  if (!(config.rms_norm_eps > 0 && config.rms_norm_eps < 1)) {
    return InvalidArgument("%s: rms_norm_eps is %g", where, config.rms_norm_eps);
  }
  const RopeConfig& rope = config.rope;
  if (!(rope.theta > 1)) return InvalidArgument("%s: rope_theta is %g", where, rope.theta);
  if (!(rope.factor > 0)) return InvalidArgument("%s: rope factor is %g", where, rope.factor);
  if (rope.kind == RopeKind::kLlama3 && !(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor)) {
    return InvalidArgument("%s: rope low_freq_factor %g and high_freq_factor %g do not ascend", where,
                           rope.low_freq_factor, rope.high_freq_factor);
  }
  if (rope.kind == RopeKind::kYarn) {
    if (!(rope.factor >= 1)) return InvalidArgument("%s: yarn factor %g is below 1", where, rope.factor);
    if (!(rope.beta_slow > 0 && rope.beta_fast > rope.beta_slow)) {
      return InvalidArgument("%s: yarn beta_slow %g and beta_fast %g do not ascend", where, rope.beta_slow,
                             rope.beta_fast);
    }
    if (!(rope.attention_factor.value_or(1) > 0 && rope.mscale.value_or(0) >= 0 &&
          rope.mscale_all_dim.value_or(0) >= 0)) {
      return InvalidArgument("%s: yarn attention_factor %g, mscale %g or mscale_all_dim %g is not positive", where,
                             rope.attention_factor.value_or(1), rope.mscale.value_or(0),
                             rope.mscale_all_dim.value_or(0));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ParsedConfig> ParseHuggingFaceConfig(const nlohmann::json& config, const nlohmann::json& generation,
                                                    const std::string& directory) {
  const std::string where = directory + "/config.json";
  const JsonFields fields(config, where);
  ParsedConfig parsed;
  ModelConfig& out = parsed.config;
  BATON_ASSIGN_OR_RETURN(parsed.architecture, ArchitectureOf(fields));
  out.architecture = std::string(parsed.architecture.name);
  BATON_RETURN_IF_ERROR(RefuseUnsupported(fields));
  BATON_RETURN_IF_ERROR(ParseShape(fields, parsed.architecture, &out));
  BATON_RETURN_IF_ERROR(ParseHuggingFaceRope(config, where, &out));
  BATON_RETURN_IF_ERROR(ParseWindows(fields, parsed.architecture, &out));
  BATON_ASSIGN_OR_RETURN(const auto bias, fields.Bool("attention_bias"));
  BATON_ASSIGN_OR_RETURN(const auto tied, fields.Bool("tie_word_embeddings"));
  out.o_bias = parsed.architecture.bias == Bias::kAsConfigured && bias.value_or(false);
  out.qkv_bias = parsed.architecture.bias == Bias::kQkv || out.o_bias;
  out.qk_norm = parsed.architecture.qk_norm;
  out.tied_head = tied.value_or(false);  // the default of every architecture here

  std::vector<TokenId> bos;
  BATON_RETURN_IF_ERROR(AddTokenIds(config, "bos_token_id", where, &bos));
  if (!bos.empty()) out.bos_id = bos.front();
  BATON_RETURN_IF_ERROR(AddTokenIds(config, "eos_token_id", where, &out.eos_ids));
  if (!generation.is_null()) {
    BATON_RETURN_IF_ERROR(ParseGeneration(generation, directory + "/generation_config.json", &out));
  }
  std::sort(out.eos_ids.begin(), out.eos_ids.end());
  out.eos_ids.erase(std::unique(out.eos_ids.begin(), out.eos_ids.end()), out.eos_ids.end());
  BATON_RETURN_IF_ERROR(CheckConfig(out, where));
  return parsed;
}

}  // namespace baton::model
