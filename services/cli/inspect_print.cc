#include <algorithm>

#include "nlohmann/json.hpp"
#include "services/cli/format.h"
#include "services/cli/inspect_report.h"
#include "services/cli/text_table.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Plural(uint64_t count, const std::string& noun) {
  return FormatCount(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string Bytes(uint64_t bytes) {
  std::string text = FormatCount(bytes) + " bytes";
  if (bytes >= 1024) text += " (" + FormatBytes(static_cast<double>(bytes)) + ")";
  return text;
}

std::string Shortest(double value) { return Json(value).dump(); }

// "grouped-query, 14 heads share 2 KV heads".
std::string AttentionText(const model::ModelConfig& config) {
  const char* kind = config.kv_heads == config.heads ? "multi-head"
                     : config.kv_heads == 1          ? "multi-query"
                                                     : "grouped-query";
  std::string text = std::string(kind) + ", " + Plural(config.heads, "head") + ", " +
                     Plural(config.kv_heads, "KV head") + ", " + std::to_string(config.head_dim) + " wide";
  if (config.qkv_bias) text += ", biases on q k v";
  if (config.qk_norm) text += ", norms on q k";
  const auto windowed = std::count_if(config.windows.begin(), config.windows.end(), [](uint32_t w) { return w > 0; });
  if (windowed > 0) {
    text += ", " + Plural(static_cast<uint64_t>(windowed), "layer") + " with a window of " +
            FormatCount(*std::max_element(config.windows.begin(), config.windows.end()));
  }
  return text;
}

std::string RopeText(const model::ModelConfig& config) {
  const model::RopeConfig& rope = config.rope;
  std::string text = std::string(model::RopeKindName(rope.kind)) + ", theta " + Shortest(rope.theta);
  if (rope.kind != model::RopeKind::kPlain) text += ", factor " + Shortest(rope.factor);
  if (rope.original_max_position_embeddings > 0) {
    text += ", from " + FormatCount(rope.original_max_position_embeddings) + " positions";
  }
  if (!rope.frequency_divisors.empty()) text += ", frequencies divided as the file says";
  return text;
}

// What the file sets, by name.
Json GenerationJson(const model::GenerationDefaults& defaults) {
  Json json = Json::object();
  if (defaults.temperature) json["temperature"] = *defaults.temperature;
  if (defaults.top_p) json["top_p"] = *defaults.top_p;
  if (defaults.top_k) json["top_k"] = *defaults.top_k;
  if (defaults.min_p) json["min_p"] = *defaults.min_p;
  if (defaults.repetition_penalty) json["repetition_penalty"] = *defaults.repetition_penalty;
  return json;
}

std::string GenerationText(const model::GenerationDefaults& defaults) {
  std::string text;
  const Json json = GenerationJson(defaults);
  for (const auto& [name, value] : json.items()) {
    text += (text.empty() ? "" : ", ") + name + " " + value.dump();
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::string InspectText(const InspectReport& report) {
  const model::ModelConfig& config = report.model->config;
  const model::ParameterCount& parameters = report.parameters;
  FactList facts;
  facts.Add("architecture", config.architecture);
  facts.Add("layers", std::to_string(config.layers) + ", hidden " + FormatCount(config.hidden) + ", feed-forward " +
                          FormatCount(config.intermediate) + ", vocabulary " + FormatCount(config.vocab));
  facts.Add("attention", AttentionText(config));
  facts.Add("rope", RopeText(config));
  facts.Add("length", Plural(config.max_length, "token"));
  facts.Add("parameters", FormatCount(parameters.total));
  facts.Add("  embedding", FormatCount(parameters.embedding));
  facts.Add("  head", parameters.head == 0 ? "the embedding's" : FormatCount(parameters.head));
  facts.Add("  attention", FormatCount(parameters.attention_per_layer) + " a layer");
  facts.Add("  feed-forward", FormatCount(parameters.feed_forward_per_layer) + " a layer");
  facts.Add("  norms, biases", FormatCount(parameters.norms_and_biases));
  facts.Add("weights", Bytes(report.weight_bytes) + ", " + report.model->weights_format + ", mostly " +
                           std::string(DTypeName(config.dtype)));
  facts.Add("KV a token", Bytes(report.layout.BytesPerToken()) + " in " + std::string(DTypeName(report.layout.dtype)));
  facts.Add("  multi-head", "would need " + Bytes(report.kv_token_multi_head));
  facts.Add("  multi-query", "would need " + Bytes(report.kv_token_multi_query));
  facts.Add("KV a block", Bytes(report.layout.BytesPerBlock()) + ", " + Plural(report.layout.block_size, "token"));
  facts.Add("KV a sequence", Bytes(report.sequence_bytes) + " at " + Plural(report.max_model_len, "token"));
  if (report.pool) {
    facts.Add("KV pool", FormatBytes(static_cast<double>(report.pool->bytes)) + " holds " +
                             Plural(report.pool->blocks, "block") + ", " + Plural(report.pool->tokens, "token") + ", " +
                             FormatNumber(report.pool->sequences, 2) + " sequences of " +
                             FormatCount(report.max_model_len));
  }
  facts.Add("generation", GenerationText(config.generation));
  facts.Add("tokenizer", report.text.tokenizer);
  facts.Add("chat template", report.text.chat_template);
  if (report.quality) {
    const QualityReport& quality = *report.quality;
    facts.Add("quality", "weights " + quality.weights + ": perplexity " + FormatNumber(quality.perplexity, 4) +
                             ", f32 " + FormatNumber(quality.perplexity_f32, 4) + " (" +
                             FormatNumber(100 * (quality.perplexity / quality.perplexity_f32 - 1), 2) +
                             "% more), same first choice in " + FormatNumber(100 * quality.agreement, 2) + "% of " +
                             Plural(quality.tokens, "token"));
  }
  return facts.Text();
}

std::string InspectJson(const InspectReport& report) {
  const model::ModelConfig& config = report.model->config;
  const model::ParameterCount& parameters = report.parameters;
  Json json = {{"architecture", config.architecture}, {"layers", config.layers},     {"hidden", config.hidden},
               {"intermediate", config.intermediate}, {"vocab", config.vocab},       {"heads", config.heads},
               {"kv_heads", config.kv_heads},         {"head_dim", config.head_dim}, {"max_length", config.max_length},
               {"tied_head", config.tied_head},       {"eos_ids", config.eos_ids}};
  json["rope"] = {{"kind", std::string(model::RopeKindName(config.rope.kind))},
                  {"theta", config.rope.theta},
                  {"factor", config.rope.factor}};
  json["parameters"] = {{"total", parameters.total},
                        {"embedding", parameters.embedding},
                        {"head", parameters.head},
                        {"attention_per_layer", parameters.attention_per_layer},
                        {"feed_forward_per_layer", parameters.feed_forward_per_layer},
                        {"norms_and_biases", parameters.norms_and_biases}};
  json["weights"] = {{"bytes", report.weight_bytes},
                     {"format", report.model->weights_format},
                     {"dtype", std::string(DTypeName(config.dtype))}};
  json["kv"] = {{"dtype", std::string(DTypeName(report.layout.dtype))},
                {"block_size", report.layout.block_size},
                {"bytes_per_token", report.layout.BytesPerToken()},
                {"bytes_per_block", report.layout.BytesPerBlock()},
                {"bytes_per_token_multi_head", report.kv_token_multi_head},
                {"bytes_per_token_multi_query", report.kv_token_multi_query},
                {"max_model_len", report.max_model_len},
                {"bytes_per_sequence", report.sequence_bytes}};
  if (report.pool) {
    json["kv"]["pool"] = {{"bytes", report.pool->bytes},
                          {"blocks", report.pool->blocks},
                          {"tokens", report.pool->tokens},
                          {"sequences", report.pool->sequences}};
  }
  json["generation"] = GenerationJson(config.generation);
  json["tokenizer"] = report.text.tokenizer;
  json["has_tokenizer"] = report.text.has_tokenizer;
  json["has_chat_template"] = report.text.has_chat_template;
  if (report.quality) {
    json["quality"] = {{"weights", report.quality->weights},
                       {"tokens", report.quality->tokens},
                       {"perplexity", report.quality->perplexity},
                       {"perplexity_f32", report.quality->perplexity_f32},
                       {"agreement", report.quality->agreement}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace baton::cli
