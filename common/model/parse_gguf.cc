#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/model/parse_config.h"
#include "common/weights/tensor.h"

namespace baton::model {
namespace {

using weights::GgufMetadata;

// The keys of one architecture: "<architecture>.<name>".
class ArchitectureKeys {
 public:
  ArchitectureKeys(const GgufMetadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  absl::StatusOr<uint32_t> Required(std::string_view name, uint32_t most) const {
    BATON_ASSIGN_OR_RETURN(const auto value, Optional(name, most));
    if (!value) return InvalidArgument("metadata key '%s%s' is missing", prefix_, name);
    return *value;
  }
  absl::StatusOr<std::optional<uint32_t>> Optional(std::string_view name, uint32_t most) const {
    BATON_ASSIGN_OR_RETURN(const auto value, metadata_.U32(prefix_ + std::string(name)));
    if (value && (*value < 1 || *value > most)) {
      return InvalidArgument("metadata key '%s%s' is %d, not within 1 to %d", prefix_, name, *value, most);
    }
    return value;
  }
  absl::StatusOr<std::optional<double>> Number(std::string_view name) const {
    return metadata_.Number(prefix_ + std::string(name));
  }
  absl::StatusOr<std::optional<std::string>> String(std::string_view name) const {
    return metadata_.String(prefix_ + std::string(name));
  }

 private:
  const GgufMetadata& metadata_;
  const std::string prefix_;
};

absl::Status ParseRope(const ArchitectureKeys& keys, ModelConfig* out) {
  RopeConfig& rope = out->rope;
  BATON_ASSIGN_OR_RETURN(const auto theta, keys.Number("rope.freq_base"));
  BATON_ASSIGN_OR_RETURN(const auto type, keys.String("rope.scaling.type"));
  BATON_ASSIGN_OR_RETURN(const auto factor, keys.Number("rope.scaling.factor"));
  BATON_ASSIGN_OR_RETURN(const auto old_linear, keys.Number("rope.scale_linear"));
  BATON_ASSIGN_OR_RETURN(const auto original, keys.Optional("rope.scaling.original_context_length", 1 << 30));
  rope.theta = theta.value_or(10000);
  out->max_length = out->max_position_embeddings;  // GGUF states the extended length
  const std::string kind = type.value_or(old_linear ? "linear" : "none");
  if (kind == "none") return absl::OkStatus();
  if (kind != "linear" && kind != "yarn") {
    return Unimplemented("rope scaling type %s is not supported; supported are none, linear, yarn",
                         weights::Quoted(kind));
  }
  rope.kind = kind == "yarn" ? RopeKind::kYarn : RopeKind::kLinear;
  rope.factor = factor.value_or(old_linear.value_or(1));
  if (rope.kind == RopeKind::kYarn) {
    BATON_ASSIGN_OR_RETURN(const auto attention, keys.Number("rope.scaling.attn_factor"));
    BATON_ASSIGN_OR_RETURN(const auto fast, keys.Number("rope.scaling.yarn_beta_fast"));
    BATON_ASSIGN_OR_RETURN(const auto slow, keys.Number("rope.scaling.yarn_beta_slow"));
    rope.original_max_position_embeddings = original.value_or(out->max_position_embeddings);
    rope.beta_fast = fast.value_or(32);
    rope.beta_slow = slow.value_or(1);
    // Here the stated factor multiplies YaRN's own scale instead of replacing it.
    if (attention) rope.attention_factor = *attention * (0.1 * std::log(std::max(rope.factor, 1.0)) + 1.0);
  }
  return absl::OkStatus();
}

absl::Status ParseHeads(const ArchitectureKeys& keys, ModelConfig* out) {
  BATON_ASSIGN_OR_RETURN(out->heads, keys.Required("attention.head_count", 4096));
  BATON_ASSIGN_OR_RETURN(const auto kv_heads, keys.Optional("attention.head_count_kv", 4096));
  BATON_ASSIGN_OR_RETURN(const auto key_length, keys.Optional("attention.key_length", 4096));
  BATON_ASSIGN_OR_RETURN(const auto value_length, keys.Optional("attention.value_length", 4096));
  BATON_ASSIGN_OR_RETURN(const auto rotated, keys.Optional("rope.dimension_count", 4096));
  out->kv_heads = kv_heads.value_or(out->heads);
  if (!key_length && out->hidden % out->heads != 0) {
    return InvalidArgument("embedding_length %d is no multiple of attention.head_count %d", out->hidden, out->heads);
  }
  out->head_dim = key_length.value_or(out->hidden / out->heads);
  if (value_length.value_or(out->head_dim) != out->head_dim) {
    return Unimplemented("attention.value_length %d differs from the key length %d", *value_length, out->head_dim);
  }
  if (rotated.value_or(out->head_dim) != out->head_dim) {
    return Unimplemented("rope.dimension_count %d differs from the head length %d", *rotated, out->head_dim);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TokenId>> ReadTokenId(const GgufMetadata& metadata, const char* key) {
  BATON_ASSIGN_OR_RETURN(const auto id, metadata.U32(key));
  if (!id) return std::nullopt;
  if (*id >= (1 << 24)) return InvalidArgument("metadata key '%s' is %d, not a token id", key, *id);
  return static_cast<TokenId>(*id);
}

absl::Status ParseTokenIds(const GgufMetadata& metadata, ModelConfig* out) {
  BATON_ASSIGN_OR_RETURN(out->bos_id, ReadTokenId(metadata, "tokenizer.ggml.bos_token_id"));
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    BATON_ASSIGN_OR_RETURN(const auto id, ReadTokenId(metadata, key));
    if (id) out->eos_ids.push_back(*id);
  }
  std::sort(out->eos_ids.begin(), out->eos_ids.end());
  out->eos_ids.erase(std::unique(out->eos_ids.begin(), out->eos_ids.end()), out->eos_ids.end());
  return absl::OkStatus();
}

absl::StatusOr<ParsedConfig> Parse(const weights::GgufFile& gguf) {
  ParsedConfig parsed;
  ModelConfig& out = parsed.config;
  BATON_ASSIGN_OR_RETURN(const auto name, gguf.metadata.String("general.architecture"));
  if (!name) return InvalidArgument("metadata key 'general.architecture' is missing");
  BATON_ASSIGN_OR_RETURN(parsed.architecture, FindArchitecture(FileFormat::kGguf, *name));
  out.architecture = *name;

  const ArchitectureKeys keys(gguf.metadata, *name);
  BATON_ASSIGN_OR_RETURN(out.layers, keys.Required("block_count", 4096));
  BATON_ASSIGN_OR_RETURN(out.hidden, keys.Required("embedding_length", 1 << 24));
  BATON_ASSIGN_OR_RETURN(out.intermediate, keys.Required("feed_forward_length", 1 << 24));
  BATON_ASSIGN_OR_RETURN(out.max_position_embeddings, keys.Required("context_length", 1 << 30));
  BATON_ASSIGN_OR_RETURN(const auto eps, keys.Number("attention.layer_norm_rms_epsilon"));
  if (!eps) return InvalidArgument("metadata key '%s.attention.layer_norm_rms_epsilon' is missing", *name);
  out.rms_norm_eps = static_cast<float>(*eps);
  BATON_ASSIGN_OR_RETURN(const auto experts, gguf.metadata.U32(*name + ".expert_count"));
  if (experts.value_or(0) > 0) return Unimplemented("%d experts are not supported", *experts);
  BATON_RETURN_IF_ERROR(ParseHeads(keys, &out));
  BATON_RETURN_IF_ERROR(ParseRope(keys, &out));
  BATON_RETURN_IF_ERROR(ParseTokenIds(gguf.metadata, &out));

  // No key says these: the tensors do.
  const TensorNames& names = NamesOf(FileFormat::kGguf);
  const auto embedding = gguf.tensors.find(names.embedding);
  if (embedding == gguf.tensors.end()) return NotFound("tensor '%s' is missing", names.embedding);
  const uint64_t vocab = embedding->second.shape.front();
  if (vocab > (1 << 24)) return InvalidArgument("tensor '%s' has %d rows", names.embedding, vocab);
  out.vocab = static_cast<uint32_t>(vocab);
  const Bias bias = parsed.architecture.bias;
  const bool may_have_bias = bias == Bias::kAsConfigured;
  out.qkv_bias = bias == Bias::kQkv || (may_have_bias && gguf.tensors.contains(names.Layer(0, names.q_bias)));
  out.o_bias = may_have_bias && gguf.tensors.contains(names.Layer(0, names.o_bias));
  out.qk_norm = parsed.architecture.qk_norm;
  out.tied_head = !gguf.tensors.contains(names.lm_head);
  out.windows.assign(out.layers, 0);
  BATON_RETURN_IF_ERROR(CheckConfig(out, *name));
  return parsed;
}

}  // namespace

absl::StatusOr<ParsedConfig> ParseGgufConfig(const weights::GgufFile& gguf) {
  absl::StatusOr<ParsedConfig> parsed = Parse(gguf);
  if (!parsed.ok()) return WithContext(parsed.status(), gguf.file->path());
  return parsed;
}

}  // namespace baton::model
