#pragma once

// The flags of a request, shared by `generate` and `chat`. What is not given stays unset: the model's defaults hold.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "baton/v1/inference.pb.h"

namespace CLI {
class App;
}

namespace baton::cli {

struct SamplingFlags {
  std::string model;
  std::optional<uint32_t> max_tokens, min_tokens, top_k, n, logprobs;
  std::optional<float> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::map<int32_t, float> logit_bias;
  bool ignore_eos = false;
  int32_t priority = 0;
  std::string cache_salt;

  // The flags fill this object when they are parsed: it must stay where it is.
  void AddTo(CLI::App& command);
  // Model, sampling, priority and salt of a request.
  void ApplyTo(v1::GenerateRequest* request) const;
};

}  // namespace baton::cli
