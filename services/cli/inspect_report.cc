#include "services/cli/inspect_report.h"

#include "common/base/status.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "services/cli/format.h"

namespace baton::cli {
namespace {

// "BPE, byte-level" of a tokenizer.json, "llama" of a GGUF vocabulary.
std::string TokenizerKind(const TextAssets& assets) {
  if (assets.gguf) return "GGUF, " + assets.gguf->model + (assets.gguf->pre.empty() ? "" : ", " + assets.gguf->pre);
  const auto json = nlohmann::json::parse(assets.tokenizer_json, nullptr, false);
  std::string kind = "tokenizer.json";
  if (!json.is_object() || !json.contains("model") || !json["model"].is_object()) return kind;
  const auto& model = json["model"];
  if (model.contains("type") && model["type"].is_string()) kind += ", " + model["type"].get<std::string>();
  const bool fallback = model.contains("byte_fallback") && model["byte_fallback"] == true;
  return kind + (fallback ? ", byte fallback" : ", byte-level");
}

TextReport InspectTextAssets(const TextAssets& assets) {
  TextReport report;
  if (assets.tokenizer_json.empty() && !assets.gguf) {
    report.tokenizer = "none";
  } else if (const auto tokenizer = Tokenizer::Create(assets); tokenizer.ok()) {
    report.has_tokenizer = true;
    report.tokenizer = TokenizerKind(assets) + ", " + FormatCount((*tokenizer)->vocab_size()) + " tokens";
  } else {
    report.tokenizer = TokenizerKind(assets) + ": " + StatusMessage(tokenizer.status());
  }
  if (assets.chat_template.empty()) {
    report.chat_template = "none";
  } else if (const auto chat = ChatTemplate::Parse(assets.chat_template, {}); chat.ok()) {
    report.has_chat_template = true;
    report.chat_template = "yes";
  } else {
    report.chat_template = "does not parse: " + StatusMessage(chat.status());
  }
  return report;
}

}  // namespace

absl::StatusOr<InspectReport> Inspect(const model::Model& model, const InspectOptions& options) {
  const model::ModelConfig& config = model.config;
  InspectReport report;
  report.model = &model;
  report.max_model_len = options.max_model_len == 0 ? config.max_length : options.max_model_len;
  if (report.max_model_len > config.max_length) {
    return InvalidArgument("--max_model_len is %d, the model takes %d", report.max_model_len, config.max_length);
  }
  report.parameters = model::CountParameters(config);
  report.weight_bytes = model::WeightBytes(model);
  report.layout = {options.kv_dtype, config.layers, config.kv_heads, config.head_dim, options.block_size};
  report.kv_token_multi_head = model::KvBytesPerToken(config, options.kv_dtype, config.heads);
  report.kv_token_multi_query = model::KvBytesPerToken(config, options.kv_dtype, 1);
  report.sequence_bytes = report.layout.BlocksFor(report.max_model_len) * report.layout.BytesPerBlock();
  if (options.memory_gib) {
    KvPoolReport pool;
    pool.bytes = static_cast<uint64_t>(*options.memory_gib * 1024 * 1024 * 1024);
    pool.blocks = pool.bytes / report.layout.BytesPerBlock();
    pool.tokens = pool.blocks * options.block_size;
    pool.sequences = static_cast<double>(pool.blocks) / report.layout.BlocksFor(report.max_model_len);
    report.pool = pool;
  }
  report.text = InspectTextAssets(model.text);
  return report;
}

}  // namespace baton::cli
