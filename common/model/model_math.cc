#include "common/model/model_math.h"

namespace baton::model {

ParameterCount CountParameters(const ModelConfig& config) {
  const uint64_t hidden = config.hidden, q = config.q_rows(), kv = config.kv_rows(), layers = config.layers;
  ParameterCount count;
  count.embedding = config.vocab * hidden;
  count.head = config.tied_head ? 0 : count.embedding;
  count.attention_per_layer = 2 * q * hidden + 2 * kv * hidden;
  count.feed_forward_per_layer = 3 * hidden * config.intermediate;
  const uint64_t small_per_layer = 2 * hidden + (config.qkv_bias ? q + 2 * kv : 0) + (config.o_bias ? hidden : 0) +
                                   (config.qk_norm ? 2 * uint64_t{config.head_dim} : 0);
  count.norms_and_biases = layers * small_per_layer + hidden;
  count.total = count.embedding + count.head + count.norms_and_biases +
                layers * (count.attention_per_layer + count.feed_forward_per_layer);
  return count;
}

uint64_t KvBytesPerToken(const ModelConfig& config, DType kv_dtype, uint32_t kv_heads) {
  const uint64_t scale = kv_dtype == DType::kI8 ? sizeof(float) : 0;
  return 2 * uint64_t{config.layers} * kv_heads * (BytesOf(kv_dtype, config.head_dim) + scale);
}

uint64_t WeightBytes(const Model& model) {
  uint64_t bytes = model.embedding.data.size() + model.final_norm.data.size();
  if (!model.config.tied_head) bytes += model.lm_head.data.size();
  for (const LayerWeights& layer : model.layers) {
    for (const TensorView* tensor : {&layer.attention_norm, &layer.q, &layer.k, &layer.v, &layer.o, &layer.ffn_norm,
                                     &layer.gate, &layer.up, &layer.down}) {
      bytes += tensor->data.size();
    }
    for (const auto* tensor :
         {&layer.q_bias, &layer.k_bias, &layer.v_bias, &layer.o_bias, &layer.q_norm, &layer.k_norm}) {
      if (tensor->has_value()) bytes += (*tensor)->data.size();
    }
  }
  return bytes;
}

}  // namespace baton::model
