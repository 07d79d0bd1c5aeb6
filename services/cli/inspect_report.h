#pragma once

// What a model is and needs, as `baton inspect` shows it. Plain numbers; reads no files.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"
#include "common/model/model.h"
#include "common/model/model_math.h"

namespace baton::cli {

struct InspectOptions {
  DType kv_dtype = DType::kBF16;
  uint32_t block_size = 16;          // tokens a block
  std::optional<double> memory_gib;  // of the KV pool
  uint32_t max_model_len = 0;        // tokens of a sequence; 0: what the model takes
};

struct KvPoolReport {
  uint64_t bytes = 0;   // asked for
  uint64_t blocks = 0;  // whole ones
  uint64_t tokens = 0;
  double sequences = 0;  // of full length, at the same time
};

struct TextReport {
  std::string tokenizer;      // "tokenizer.json, BPE, byte-level, 151,665 tokens", or why there is none
  std::string chat_template;  // "yes", "none", or why it does not parse
  bool has_tokenizer = false, has_chat_template = false;
};

// Perplexity of a text with some weights format beside that with f32.
struct QualityReport {
  std::string weights;
  uint64_t tokens = 0;
  double perplexity = 0, perplexity_f32 = 0;
  double agreement = 0;  // share of places where both predict the same token
};

struct InspectReport {
  const model::Model* model = nullptr;  // not owned
  model::ParameterCount parameters;
  uint64_t weight_bytes = 0;
  KvLayout layout;
  uint64_t kv_token_multi_head = 0, kv_token_multi_query = 0;  // bytes a token if heads or one head kept KV
  uint32_t max_model_len = 0;
  uint64_t sequence_bytes = 0;  // KV of one sequence of full length, in whole blocks
  std::optional<KvPoolReport> pool;
  TextReport text;
  std::optional<QualityReport> quality;
};

// INVALID_ARGUMENT when `max_model_len` is more than the model takes. `model` must outlive the report.
absl::StatusOr<InspectReport> Inspect(const model::Model& model, const InspectOptions& options);

std::string InspectText(const InspectReport& report);
// One line.
std::string InspectJson(const InspectReport& report);

}  // namespace baton::cli
