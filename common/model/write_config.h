#pragma once

// A model's config as files carry it: the inverse of parse_config.h for what Baton writes itself.

#include <string>
#include <vector>

#include "common/model/model_config.h"
#include "common/weights/gguf_writer.h"
#include "common/weights/tensor_source.h"

namespace baton::model {

// config.json as transformers 4 writes it. `omit_head_dim` leaves it to be derived.
std::string ConfigJson(const ModelConfig& config, bool omit_head_dim = false);

// Metadata and tensors of a GGUF file; `tensors` under their Hugging Face names. Rows of q and k are interleaved as the
// converter does for the llama architecture. The tokenizer is that of byte_vocabulary.h (none for a vocabulary smaller
// than it).
weights::GgufWriter GgufOf(const ModelConfig& config, const std::vector<weights::TensorSource>& tensors);

}  // namespace baton::model
