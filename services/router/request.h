#pragma once

// A client's GenerateRequest, checked and resolved: defaults filled in, prompts still to be tokenized.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "common/rpc/status.h"
#include "common/sampling/params.h"
#include "common/text/output_text.h"
#include "services/router/config.h"
#include "services/router/served_model.h"

namespace baton {

struct GenerationPlan {
  std::string request_id;
  std::shared_ptr<const ServedModel> model;
  uint32_t choices = 1;
  std::optional<uint32_t> max_tokens;  // the caller's
  SamplingParams sampling;             // all but max_tokens, which depends on the prompt's length
  OutputTextOptions output;
  int32_t priority = 0;
  std::string cache_salt;
  bool chat = false;  // the first prompt is one
};

inline constexpr uint32_t kMaxPrompts = 64;
inline constexpr uint32_t kMaxStops = 16;
inline constexpr uint32_t kMaxStopBytes = 256;
inline constexpr uint32_t kMaxRequestIdBytes = 128;
inline constexpr uint32_t kMaxSaltBytes = 256;

// Everything that can be said about a request without tokenizing it; all violations at once. `request_id` is made when
// the caller gave none.
std::vector<FieldViolation> CheckRequest(const v1::GenerateRequest& request, const RouterConfig& config,
                                         const std::shared_ptr<const ServedModel>& model, GenerationPlan* plan);
// The same for one prompt; `field` is its path.
void CheckPrompt(const v1::Prompt& prompt, const std::string& field, const RouterConfig& config,
                 std::vector<FieldViolation>* violations);

// What a call is told that finds the tasks for text full.
std::string TextQueueFull(const RouterConfig& config);

// Ids of a prompt. Takes time: not for RPC threads. Errors name `field`.
absl::StatusOr<std::vector<TokenId>> TokenizePrompt(const v1::Prompt& prompt, const std::string& field,
                                                    const ServedModel& model, const std::function<bool()>& cancelled);

}  // namespace baton
