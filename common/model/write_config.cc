#include "common/model/write_config.h"

#include <cstring>

#include "common/base/status.h"
#include "common/model/byte_vocabulary.h"
#include "common/model/catalogue.h"
#include "common/model/rope.h"
#include "nlohmann/json.hpp"

namespace baton::model {
namespace {

using weights::GgufWriter;
using weights::TensorSource;

nlohmann::json RopeJson(const RopeConfig& rope) {
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
  const TensorNames& from = NamesOf(FileFormat::kSafetensors);
  const TensorNames& to = NamesOf(FileFormat::kGguf);
  if (name == from.embedding) return std::string(to.embedding);
  if (name == from.final_norm) return std::string(to.final_norm);
  if (name == from.lm_head) return std::string(to.lm_head);
  using Names = TensorNames;
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
TensorSource Interleave(TensorSource tensor, uint64_t heads) {
  const auto source_of = [half = tensor.shape.front() / heads / 2](uint64_t row) {
    const uint64_t head = row / (2 * half), j = row % (2 * half) / 2, side = row % 2;
    return (head * 2 + side) * half + j;
  };
  if (tensor.shape.size() == 1) {  // a bias: its values are what rows are to a matrix
    tensor.fill = [fill = tensor.fill, source_of, size = BytesOf(tensor.dtype, 1)](uint64_t, std::span<std::byte> out) {
      std::vector<std::byte> values(out.size());
      fill(0, values);
      for (uint64_t i = 0; i * size < out.size(); ++i) {
        std::memcpy(out.data() + i * size, values.data() + source_of(i) * size, size);
      }
    };
    return tensor;
  }
  tensor.fill = [fill = tensor.fill, source_of, row_bytes = tensor.row_bytes()](uint64_t first,
                                                                                std::span<std::byte> out) {
    for (uint64_t i = 0; i * row_bytes < out.size(); ++i) {
      fill(source_of(first + i), out.subspan(i * row_bytes, row_bytes));
    }
  };
  return tensor;
}

// llama3's scaling as the file format has it: what each frequency is divided by.
std::vector<float> RopeDivisors(const ModelConfig& config) {
  if (config.rope.kind != RopeKind::kLlama3) return config.rope.frequency_divisors;
  RopeConfig plain = config.rope;
  plain.kind = RopeKind::kPlain;
  const RopeTable unscaled = MakeRopeTable(plain, config.head_dim),
                  scaled = MakeRopeTable(config.rope, config.head_dim);
  std::vector<float> divisors(unscaled.inverse_frequencies.size());
  for (size_t i = 0; i < divisors.size(); ++i) {
    divisors[i] = unscaled.inverse_frequencies[i] / scaled.inverse_frequencies[i];
  }
  return divisors;
}

void AddTokenizer(GgufWriter& writer, uint32_t vocab) {
  std::vector<int32_t> types(vocab, 1);                                                       // normal
  for (TokenId id = kByteVocabularyEndOfText; id <= kByteVocabularyEnd; ++id) types[id] = 3;  // control
  writer.String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "qwen2")
      .Strings("tokenizer.ggml.tokens", ByteVocabulary(vocab))
      .I32s("tokenizer.ggml.token_type", types)
      .Strings("tokenizer.ggml.merges", {})
      .U32("tokenizer.ggml.bos_token_id", kByteVocabularyEndOfText)
      .U32("tokenizer.ggml.eos_token_id", kByteVocabularyEnd)
      .Bool("tokenizer.ggml.add_bos_token", false)
      .String("tokenizer.chat_template", kByteChatTemplate);
}

}  // namespace

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
  if (config.architecture == "LlamaForCausalLM") out["model_type"] = "llama";
  if (config.architecture == "Qwen2ForCausalLM") out["model_type"] = "qwen2";
  if (config.architecture == "Qwen3ForCausalLM") out["model_type"] = "qwen3";
  if (config.architecture == "MistralForCausalLM") out["model_type"] = "mistral";
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

GgufWriter GgufOf(const ModelConfig& config, const std::vector<TensorSource>& tensors) {
  const std::string architecture = GgufArchitecture(config.architecture), prefix = architecture + ".";
  GgufWriter writer;
  writer.String("general.architecture", architecture)
      .U32("general.quantization_version", 2)
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
  if (config.vocab >= kLeastByteVocabulary) AddTokenizer(writer, config.vocab);
  for (TensorSource tensor : tensors) {
    tensor.name = GgufName(tensor.name, config.layers);
    const bool is_q = tensor.name.find("attn_q.") != std::string::npos;
    const bool is_k = tensor.name.find("attn_k.") != std::string::npos;
    if (architecture == "llama" && (is_q || is_k)) {
      tensor = Interleave(std::move(tensor), is_q ? config.heads : config.kv_heads);
    }
    writer.Tensor(std::move(tensor));
  }
  if (const std::vector<float> divisors = RopeDivisors(config); !divisors.empty()) {
    writer.Tensor({.name = std::string(NamesOf(FileFormat::kGguf).rope_divisors),
                   .dtype = DType::kF32,
                   .shape = {divisors.size()},
                   .fill = [divisors](uint64_t, std::span<std::byte> out) {
                     std::memcpy(out.data(), divisors.data(), out.size());
                   }});
  }
  return writer;
}

}  // namespace baton::model
