#include "common/model/load_text_assets.h"

#include <filesystem>
#include <limits>
#include <utility>

#include "common/base/status.h"
#include "common/weights/json_file.h"

namespace baton::model {
namespace {

constexpr uint64_t kLongestTokenizer = 256 << 20;
constexpr uint64_t kLongestConfig = 16 << 20;

absl::StatusOr<std::string> ReadIfPresent(const std::string& path, uint64_t limit) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::string();
  return weights::ReadTextFile(path, limit);
}

// A string, or a list of {"name", "template"} of which "default" counts.
std::string TemplateOf(const nlohmann::json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return "";
  for (const nlohmann::json& entry : *found) {
    if (entry.is_object() && entry.value("name", nlohmann::json()) == "default" && entry.contains("template") &&
        entry["template"].is_string()) {
      return entry["template"].get<std::string>();
    }
  }
  return "";
}

absl::StatusOr<std::optional<TokenId>> ReadTokenId(const weights::GgufMetadata& metadata, std::string_view key) {
  BATON_ASSIGN_OR_RETURN(const auto id, metadata.U32(key));
  if (!id) return std::nullopt;
  if (*id > static_cast<uint32_t>(std::numeric_limits<TokenId>::max())) {
    return InvalidArgument("metadata key '%s' is %d, not a token id", key, *id);
  }
  return static_cast<TokenId>(*id);
}

absl::StatusOr<GgufVocabulary> ReadVocabulary(const weights::GgufMetadata& metadata, std::string model) {
  GgufVocabulary out;
  out.model = std::move(model);
  BATON_ASSIGN_OR_RETURN(const auto pre, metadata.String("tokenizer.ggml.pre"));
  out.pre = pre.value_or("");
  BATON_ASSIGN_OR_RETURN(const auto* tokens, metadata.Strings("tokenizer.ggml.tokens"));
  BATON_ASSIGN_OR_RETURN(const auto* scores, metadata.F32s("tokenizer.ggml.scores"));
  BATON_ASSIGN_OR_RETURN(const auto* types, metadata.I32s("tokenizer.ggml.token_type"));
  BATON_ASSIGN_OR_RETURN(const auto* merges, metadata.Strings("tokenizer.ggml.merges"));
  if (tokens == nullptr || tokens->empty()) return InvalidArgument("metadata key 'tokenizer.ggml.tokens' is missing");
  if (scores && scores->size() != tokens->size()) {
    return InvalidArgument("tokenizer has %d tokens and %d scores", tokens->size(), scores->size());
  }
  if (types && types->size() != tokens->size()) {
    return InvalidArgument("tokenizer has %d tokens and %d token types", tokens->size(), types->size());
  }
  out.tokens = *tokens;
  if (scores) out.scores = *scores;
  if (types) out.types = *types;
  if (merges) out.merges = *merges;
  BATON_ASSIGN_OR_RETURN(out.bos_id, ReadTokenId(metadata, "tokenizer.ggml.bos_token_id"));
  BATON_ASSIGN_OR_RETURN(out.eos_id, ReadTokenId(metadata, "tokenizer.ggml.eos_token_id"));
  BATON_ASSIGN_OR_RETURN(out.unknown_id, ReadTokenId(metadata, "tokenizer.ggml.unknown_token_id"));
  BATON_ASSIGN_OR_RETURN(out.add_bos, metadata.Bool("tokenizer.ggml.add_bos_token"));
  BATON_ASSIGN_OR_RETURN(out.add_eos, metadata.Bool("tokenizer.ggml.add_eos_token"));
  BATON_ASSIGN_OR_RETURN(out.add_space_prefix, metadata.Bool("tokenizer.ggml.add_space_prefix"));
  return out;
}

absl::StatusOr<TextAssets> Read(const weights::GgufMetadata& metadata) {
  TextAssets assets;
  BATON_ASSIGN_OR_RETURN(const auto model, metadata.String("tokenizer.ggml.model"));
  if (!model) return assets;
  BATON_ASSIGN_OR_RETURN(assets.gguf, ReadVocabulary(metadata, *model));
  BATON_ASSIGN_OR_RETURN(const auto chat_template, metadata.String("tokenizer.chat_template"));
  assets.chat_template = chat_template.value_or("");
  return assets;
}

}  // namespace

absl::StatusOr<TextAssets> ReadTextAssets(const std::string& directory) {
  TextAssets assets;
  const std::string config_path = directory + "/tokenizer_config.json";
  BATON_ASSIGN_OR_RETURN(assets.tokenizer_json, ReadIfPresent(directory + "/tokenizer.json", kLongestTokenizer));
  BATON_ASSIGN_OR_RETURN(assets.tokenizer_config_json, ReadIfPresent(config_path, kLongestConfig));
  BATON_ASSIGN_OR_RETURN(assets.chat_template, ReadIfPresent(directory + "/chat_template.jinja", kLongestConfig));
  if (assets.chat_template.empty() && !assets.tokenizer_config_json.empty()) {
    BATON_ASSIGN_OR_RETURN(const nlohmann::json config,
                           weights::ParseJsonObject(assets.tokenizer_config_json, config_path));
    assets.chat_template = TemplateOf(config);
  }
  return assets;
}

absl::StatusOr<TextAssets> TextAssetsOf(const weights::GgufFile& gguf) {
  absl::StatusOr<TextAssets> assets = Read(gguf.metadata);
  if (!assets.ok()) return WithContext(assets.status(), gguf.file->path());
  return assets;
}

}  // namespace baton::model
