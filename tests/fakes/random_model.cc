#include "tests/fakes/random_model.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/model/assemble.h"
#include "common/model/catalogue.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/checkpoint_writer.h"
#include "tests/fakes/tensor_source.h"

namespace baton::fakes {
namespace {

using model::Architecture;
using model::FileFormat;
using model::ModelConfig;
using model::RopeKind;

constexpr TokenId kEndOfText = 256, kStart = 257, kEnd = 258;
constexpr char kChatTemplate[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

nlohmann::json RopeJson(const model::RopeConfig& rope) {
  if (rope.kind == RopeKind::kPlain) return nullptr;
  nlohmann::json out = {{"rope_type", RopeKindName(rope.kind)}, {"factor", rope.factor}};
  if (rope.original_max_position_embeddings) {
    out["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  if (rope.kind == RopeKind::kLlama3) {
    out["low_freq_factor"] = rope.low_freq_factor;
    out["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.attention_factor) out["attention_factor"] = *rope.attention_factor;
  if (rope.mscale) out["mscale"] = *rope.mscale;
  if (rope.mscale_all_dim) out["mscale_all_dim"] = *rope.mscale_all_dim;
  return out;
}

std::string GgufArchitecture(const std::string& architecture) {
  if (architecture == "Qwen2ForCausalLM") return "qwen2";
  if (architecture == "Qwen3ForCausalLM") return "qwen3";
  return "llama";
}

// "model.layers.3.mlp.up_proj.weight" to "blk.3.ffn_up.weight".
std::string GgufName(const std::string& name, uint32_t layers) {
  const model::TensorNames& from = model::NamesOf(FileFormat::kSafetensors);
  const model::TensorNames& to = model::NamesOf(FileFormat::kGguf);
  if (name == from.embedding) return std::string(to.embedding);
  if (name == from.final_norm) return std::string(to.final_norm);
  if (name == from.lm_head) return std::string(to.lm_head);
  using Names = model::TensorNames;
  for (const auto member : {&Names::attention_norm, &Names::q, &Names::k, &Names::v, &Names::o, &Names::q_bias,
                            &Names::k_bias, &Names::v_bias, &Names::o_bias, &Names::q_norm, &Names::k_norm,
                            &Names::ffn_norm, &Names::gate, &Names::up, &Names::down}) {
    for (uint32_t layer = 0; layer < layers; ++layer) {
      if (name == from.Layer(layer, from.*member)) return to.Layer(layer, to.*member);
    }
  }
  BATON_CHECK(false);
}

// The converter's permutation: row (head, half, j) goes to (head, j, half).
std::vector<std::byte> Interleave(const std::vector<std::byte>& in, uint64_t rows, uint64_t heads) {
  const uint64_t row_bytes = in.size() / rows, half = rows / heads / 2;
  std::vector<std::byte> out(in.size());
  for (uint64_t head = 0; head < heads; ++head) {
    for (uint64_t side = 0; side < 2; ++side) {
      for (uint64_t j = 0; j < half; ++j) {
        const uint64_t from = (head * 2 + side) * half + j, to = (head * half + j) * 2 + side;
        std::memcpy(out.data() + to * row_bytes, in.data() + from * row_bytes, row_bytes);
      }
    }
  }
  return out;
}

void AddMetadata(GgufWriter& writer, const std::string& architecture, const ModelConfig& config) {
  const std::string prefix = architecture + ".";
  writer.String("general.architecture", architecture)
      .U32(prefix + "block_count", config.layers)
      .U32(prefix + "context_length", config.max_position_embeddings)
      .U32(prefix + "embedding_length", config.hidden)
      .U32(prefix + "feed_forward_length", config.intermediate)
      .U32(prefix + "attention.head_count", config.heads)
      .U32(prefix + "attention.head_count_kv", config.kv_heads)
      .F32(prefix + "attention.layer_norm_rms_epsilon", config.rms_norm_eps)
      .F32(prefix + "rope.freq_base", static_cast<float>(config.rope.theta));
  if (config.head_dim * config.heads != config.hidden) {
    writer.U32(prefix + "attention.key_length", config.head_dim);
    writer.U32(prefix + "attention.value_length", config.head_dim);
  }
  std::vector<std::string> tokens = ByteVocabulary();
  if (config.vocab < tokens.size()) return;
  std::vector<int32_t> types(config.vocab, 5);  // unused
  for (size_t id = 0; id < tokens.size(); ++id) types[id] = id < kEndOfText ? 1 : 3;
  while (tokens.size() < config.vocab) tokens.push_back("[PAD" + std::to_string(tokens.size()) + "]");
  writer.String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "qwen2")
      .Strings("tokenizer.ggml.tokens", tokens)
      .I32s("tokenizer.ggml.token_type", types)
      .Strings("tokenizer.ggml.merges", {})
      .U32("tokenizer.ggml.eos_token_id", kEnd)
      .String("tokenizer.chat_template", kChatTemplate);
}

// GPT-2's printable stand-ins for bytes: printable Latin-1 stays, the rest goes to U+0100 upwards.
std::string ByteSymbol(int byte) {
  const auto printable = [](int c) {
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int c = 0; c < byte; ++c) code += printable(c) ? 0 : 1;
  }
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

}  // namespace

ModelConfig TinyConfig(const std::string& architecture) {
  ModelConfig config;
  config.architecture = architecture;
  config.layers = 2;
  config.hidden = 64;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.intermediate = 128;
  config.vocab = 320;
  config.max_position_embeddings = config.max_length = 512;
  config.qkv_bias = architecture == "Qwen2ForCausalLM";
  config.qk_norm = architecture == "Qwen3ForCausalLM";
  config.tied_head = true;
  config.windows.assign(config.layers, architecture == "MistralForCausalLM" ? 24 : 0);
  config.eos_ids = {kEnd};
  return config;
}

ModelConfig Qwen25Config() {
  ModelConfig config = TinyConfig("Qwen2ForCausalLM");
  config.layers = 24;
  config.hidden = 896;
  config.heads = 14;
  config.kv_heads = 2;
  config.head_dim = 64;
  config.intermediate = 4864;
  config.vocab = 151936;
  config.max_position_embeddings = config.max_length = 32768;
  config.rope.theta = 1e6;
  config.windows.assign(config.layers, 0);
  return config;
}

std::string ConfigJson(const ModelConfig& config, bool omit_head_dim) {
  nlohmann::json out = {{"architectures", {config.architecture}},
                        {"hidden_act", "silu"},
                        {"hidden_size", config.hidden},
                        {"intermediate_size", config.intermediate},
                        {"max_position_embeddings", config.max_position_embeddings},
                        {"num_attention_heads", config.heads},
                        {"num_hidden_layers", config.layers},
                        {"num_key_value_heads", config.kv_heads},
                        {"rms_norm_eps", config.rms_norm_eps},
                        {"rope_theta", config.rope.theta},
                        {"rope_scaling", RopeJson(config.rope)},
                        {"tie_word_embeddings", config.tied_head},
                        {"torch_dtype", "bfloat16"},
                        {"vocab_size", config.vocab}};
  if (!omit_head_dim) out["head_dim"] = config.head_dim;
  if (config.bos_id) out["bos_token_id"] = *config.bos_id;
  if (!config.eos_ids.empty()) out["eos_token_id"] = config.eos_ids;
  if (config.o_bias) out["attention_bias"] = true;
  if (config.architecture == "MistralForCausalLM") {
    out["sliding_window"] = config.windows.front() ? nlohmann::json(config.windows.front()) : nlohmann::json(nullptr);
  } else if (config.windows.back() > 0) {
    uint32_t first = 0;
    while (config.windows[first] == 0) ++first;
    out["use_sliding_window"] = true;
    out["sliding_window"] = config.windows.back();
    out["max_window_layers"] = first;
  }
  return out.dump(2);
}

std::shared_ptr<const model::Model> MakeRandomModel(const ModelConfig& config, uint64_t seed, DType dtype) {
  weights::TensorMap tensors;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> memory;
  for (const TensorSource& source : RandomTensors(config, seed, dtype, dtype)) {
    memory.push_back(std::make_shared<const std::vector<std::byte>>(source.make()));
    tensors[source.name] = {.name = source.name,
                            .dtype = source.dtype,
                            .dtype_name = SafetensorsDType(source.dtype),
                            .shape = source.shape,
                            .data = *memory.back()};
  }
  const auto architecture = model::FindArchitecture(FileFormat::kSafetensors, config.architecture);
  BATON_CHECK(architecture.ok());
  auto assembled = model::AssembleModel({config, *architecture}, tensors, nullptr);
  BATON_CHECK(assembled.ok());
  (*assembled)->memory.insert((*assembled)->memory.end(), memory.begin(), memory.end());
  return *assembled;
}

void WriteRandomModel(const std::string& directory, const ModelConfig& config, uint64_t seed,
                      const RandomModelOptions& options) {
  std::vector<TensorSource> tensors = RandomTensors(config, seed, options.dtype, options.dtype);
  if (options.write_head && config.tied_head) {
    TensorSource head = tensors.front();
    head.name = "lm_head.weight";
    tensors.push_back(std::move(head));
  }
  if (options.shards == 0) {
    WriteSafetensors(directory + "/model.safetensors", tensors);
  } else {
    WriteShardedSafetensors(directory, tensors, options.shards);
  }
  WriteFile(directory + "/config.json", ConfigJson(config));
  if (!options.tokenizer) return;
  WriteFile(directory + "/tokenizer.json", ByteTokenizerJson());
  WriteFile(directory + "/tokenizer_config.json", ByteTokenizerConfigJson());
}

void WriteRandomGguf(const std::string& path, const ModelConfig& config, uint64_t seed, DType dtype,
                     const std::vector<float>& rope_divisors) {
  const std::string architecture = GgufArchitecture(config.architecture);
  GgufWriter writer;
  AddMetadata(writer, architecture, config);
  for (TensorSource tensor : RandomTensors(config, seed, dtype, DType::kF32)) {
    tensor.name = GgufName(tensor.name, config.layers);
    const bool is_q = tensor.name.find("attn_q.") != std::string::npos;
    const bool is_k = tensor.name.find("attn_k.") != std::string::npos;
    if (architecture == "llama" && (is_q || is_k)) {
      const uint64_t heads = is_q ? config.heads : config.kv_heads;
      tensor.make = [make = tensor.make, rows = tensor.shape.front(), heads] {
        return Interleave(make(), rows, heads);
      };
    }
    writer.Tensor(std::move(tensor));
  }
  if (!rope_divisors.empty()) {
    writer.Tensor({.name = std::string(model::NamesOf(FileFormat::kGguf).rope_divisors),
                   .dtype = DType::kF32,
                   .shape = {rope_divisors.size()},
                   .make = [rope_divisors] { return Encode(DType::kF32, rope_divisors); }});
  }
  writer.Write(path);
}

std::vector<std::string> ByteVocabulary() {
  std::vector<std::string> out;
  for (int byte = 0; byte < 256; ++byte) out.push_back(ByteSymbol(byte));
  out.insert(out.end(), {"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  return out;
}

std::string ByteTokenizerJson() {
  const std::vector<std::string> tokens = ByteVocabulary();
  nlohmann::json vocabulary = nlohmann::json::object(), added = nlohmann::json::array();
  for (TokenId id = 0; id < kEndOfText; ++id) vocabulary[tokens[id]] = id;
  for (TokenId id = kEndOfText; id <= kEnd; ++id) {
    added.push_back({{"id", id},
                     {"content", tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const nlohmann::json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  nlohmann::json out = {{"version", "1.0"},          {"truncation", nullptr}, {"padding", nullptr},
                        {"added_tokens", added},     {"normalizer", nullptr}, {"pre_tokenizer", byte_level},
                        {"post_processor", nullptr}, {"decoder", byte_level}};
  out["model"] = {{"type", "BPE"},
                  {"dropout", nullptr},
                  {"unk_token", nullptr},
                  {"continuing_subword_prefix", ""},
                  {"end_of_word_suffix", ""},
                  {"fuse_unk", false},
                  {"byte_fallback", false},
                  {"vocab", vocabulary},
                  {"merges", nlohmann::json::array()}};
  return out.dump();
}

std::string ByteTokenizerConfigJson() {
  return nlohmann::json{
      {"tokenizer_class", "Qwen2Tokenizer"}, {"add_bos_token", false},       {"bos_token", nullptr},
      {"eos_token", "<|im_end|>"},           {"pad_token", "<|endoftext|>"}, {"chat_template", kChatTemplate}}
      .dump(2);
}

}  // namespace baton::fakes
