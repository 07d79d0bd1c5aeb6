#include "common/model/catalogue.h"

#include "common/base/status.h"
#include "common/weights/tensor.h"

namespace baton::model {
namespace {

constexpr FileFormat kST = FileFormat::kSafetensors;
constexpr FileFormat kGG = FileFormat::kGguf;

constexpr Architecture kArchitectures[] = {
    // format, name, bias, q/k norm, window, head_dim, window size, positions, interleaved rope
    {kST, "Qwen2ForCausalLM", Bias::kQkv, false, Window::kUpperLayers, 0, 4096, 32768, false},
    {kST, "Qwen3ForCausalLM", Bias::kAsConfigured, true, Window::kUpperLayers, 128, 4096, 32768, false},
    {kST, "LlamaForCausalLM", Bias::kAsConfigured, false, Window::kNever, 0, 0, 2048, false},
    {kST, "MistralForCausalLM", Bias::kNever, false, Window::kEveryLayer, 0, 4096, 131072, false},
    {kGG, "qwen2", Bias::kQkv, false, Window::kNever, 0, 0, 0, false},
    {kGG, "qwen3", Bias::kAsConfigured, true, Window::kNever, 0, 0, 0, false},
    {kGG, "llama", Bias::kAsConfigured, false, Window::kNever, 0, 0, 0, true},  // also Mistral and SmolLM2
};

constexpr TensorNames kSafetensorsNames = {
    .embedding = "model.embed_tokens.weight",
    .final_norm = "model.norm.weight",
    .lm_head = "lm_head.weight",
    .layer_prefix = "model.layers.",
    .attention_norm = "input_layernorm.weight",
    .q = "self_attn.q_proj.weight",
    .k = "self_attn.k_proj.weight",
    .v = "self_attn.v_proj.weight",
    .o = "self_attn.o_proj.weight",
    .q_bias = "self_attn.q_proj.bias",
    .k_bias = "self_attn.k_proj.bias",
    .v_bias = "self_attn.v_proj.bias",
    .o_bias = "self_attn.o_proj.bias",
    .q_norm = "self_attn.q_norm.weight",
    .k_norm = "self_attn.k_norm.weight",
    .ffn_norm = "post_attention_layernorm.weight",
    .gate = "mlp.gate_proj.weight",
    .up = "mlp.up_proj.weight",
    .down = "mlp.down_proj.weight",
    .rope_divisors = "",
    .precomputed_rope = ".rotary_emb.inv_freq",
};

constexpr TensorNames kGgufNames = {
    .embedding = "token_embd.weight",
    .final_norm = "output_norm.weight",
    .lm_head = "output.weight",
    .layer_prefix = "blk.",
    .attention_norm = "attn_norm.weight",
    .q = "attn_q.weight",
    .k = "attn_k.weight",
    .v = "attn_v.weight",
    .o = "attn_output.weight",
    .q_bias = "attn_q.bias",
    .k_bias = "attn_k.bias",
    .v_bias = "attn_v.bias",
    .o_bias = "attn_output.bias",
    .q_norm = "attn_q_norm.weight",
    .k_norm = "attn_k_norm.weight",
    .ffn_norm = "ffn_norm.weight",
    .gate = "ffn_gate.weight",
    .up = "ffn_up.weight",
    .down = "ffn_down.weight",
    .rope_divisors = "rope_freqs.weight",
    .precomputed_rope = ".attn_rot_embd",
};

}  // namespace

std::string TensorNames::Layer(uint32_t layer, std::string_view name) const {
  return std::string(layer_prefix) + std::to_string(layer) + "." + std::string(name);
}

std::span<const Architecture> Architectures() { return kArchitectures; }

const TensorNames& NamesOf(FileFormat format) { return format == kGG ? kGgufNames : kSafetensorsNames; }

absl::StatusOr<Architecture> FindArchitecture(FileFormat format, std::string_view name) {
  std::string supported;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.format != format) continue;
    if (architecture.name == name) return architecture;
    supported += (supported.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return Unimplemented("architecture %s is not supported; supported are %s", weights::Quoted(name), supported);
}

}  // namespace baton::model
