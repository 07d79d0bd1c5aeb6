#include "services/router/request.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "absl/strings/str_format.h"
#include "common/base/hash.h"
#include "common/base/status.h"

namespace baton {
namespace {

class Violations {
 public:
  explicit Violations(std::vector<FieldViolation>* out) : out_(out) {}

  template <typename... Args>
  void Add(const std::string& field, const absl::FormatSpec<Args...>& format, const Args&... args) {
    out_->push_back({field, absl::StrFormat(format, args...)});
  }
  // NaN is in no range.
  void CheckRange(const std::string& field, double value, double low, double high, bool open_low = false) {
    if (open_low ? value > low && value <= high : value >= low && value <= high) return;
    Add(field, "is %g, must be in %s%g, %g]", value, open_low ? "(" : "[", low, high);
  }

 private:
  std::vector<FieldViolation>* const out_;
};

bool IsIdCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' || c == ':';
}

template <typename T>
T Resolve(bool has, T value, bool has_default, T model_default, T fallback) {
  return has ? value : has_default ? model_default : fallback;
}

void CheckSampling(const v1::SamplingParameters& in, const ServedModel& model, uint32_t default_max_tokens,
                   Violations& violations, GenerationPlan* plan) {
  const internal::v1::GenerationDefaults& defaults = model.defaults;
  SamplingParams& params = plan->sampling;
  params.temperature =
      Resolve(in.has_temperature(), in.temperature(), defaults.has_temperature(), defaults.temperature(), 1.0f);
  params.top_p = Resolve(in.has_top_p(), in.top_p(), defaults.has_top_p(), defaults.top_p(), 1.0f);
  params.top_k = Resolve(in.has_top_k(), in.top_k(), defaults.has_top_k(), defaults.top_k(), 0u);
  params.min_p = Resolve(in.has_min_p(), in.min_p(), defaults.has_min_p(), defaults.min_p(), 0.0f);
  params.repetition_penalty = Resolve(in.has_repetition_penalty(), in.repetition_penalty(),
                                      defaults.has_repetition_penalty(), defaults.repetition_penalty(), 1.0f);
  params.presence_penalty = in.presence_penalty();
  params.frequency_penalty = in.frequency_penalty();
  params.min_tokens = in.min_tokens();
  params.seed = in.has_seed() ? in.seed() : RandomU64();
  params.ignore_eos = in.ignore_eos();
  params.stop_token_ids.assign(in.stop_token_ids().begin(), in.stop_token_ids().end());
  params.eos_token_ids.assign(defaults.eos_token_ids().begin(), defaults.eos_token_ids().end());
  params.logit_bias.assign(in.logit_bias().begin(), in.logit_bias().end());
  std::sort(params.logit_bias.begin(), params.logit_bias.end());
  if (in.has_logprobs()) params.logprobs = in.logprobs();

  violations.CheckRange("sampling.temperature", params.temperature, 0, 2);
  violations.CheckRange("sampling.top_p", params.top_p, 0, 1);
  violations.CheckRange("sampling.min_p", params.min_p, 0, 1);
  violations.CheckRange("sampling.repetition_penalty", params.repetition_penalty, 0, 100, true);
  violations.CheckRange("sampling.presence_penalty", params.presence_penalty, -2, 2);
  violations.CheckRange("sampling.frequency_penalty", params.frequency_penalty, -2, 2);
  if (in.has_max_tokens()) {
    plan->max_tokens = in.max_tokens();
    if (in.max_tokens() == 0) violations.Add("sampling.max_tokens", "is 0, must be at least 1");
  }
  const uint32_t max_tokens = plan->max_tokens.value_or(default_max_tokens);
  if (in.min_tokens() > max_tokens) {
    violations.Add("sampling.min_tokens", "is %d, max_tokens is %d%s", in.min_tokens(), max_tokens,
                   plan->max_tokens ? "" : ", the default");
  }
  plan->choices = in.has_n() ? in.n() : 1;
  if (plan->choices < 1 || plan->choices > kMaxChoices) {
    violations.Add("sampling.n", "is %d, must be 1 to %d", plan->choices, kMaxChoices);
  }
  if (in.has_logprobs() && in.logprobs() > kMaxTopLogprobs) {
    violations.Add("sampling.logprobs", "is %d, must be 0 to %d", in.logprobs(), kMaxTopLogprobs);
  }

  const auto check_id = [&](const std::string& field, TokenId id) {
    if (id < 0 || static_cast<uint32_t>(id) >= model.vocab_size) {
      violations.Add(field, "has token %d, the vocabulary has 0 to %d", id, model.vocab_size - 1);
    }
  };
  if (in.stop_token_ids_size() > kMaxStopTokenIds) {
    violations.Add("sampling.stop_token_ids", "has %d ids, must be at most %d", in.stop_token_ids_size(),
                   kMaxStopTokenIds);
  } else {
    for (const TokenId id : in.stop_token_ids()) check_id("sampling.stop_token_ids", id);
  }
  if (in.logit_bias().size() > kMaxLogitBias) {
    violations.Add("sampling.logit_bias", "has %d entries, must be at most %d", in.logit_bias().size(), kMaxLogitBias);
  } else {
    for (const auto& [id, bias] : params.logit_bias) {
      check_id("sampling.logit_bias", id);
      violations.CheckRange("sampling.logit_bias[" + std::to_string(id) + "]", bias, -100, 100);
    }
  }

  if (in.stop_size() > static_cast<int>(kMaxStops)) {
    violations.Add("sampling.stop", "has %d texts, must be at most %d", in.stop_size(), kMaxStops);
  }
  std::vector<std::string> stops;
  for (int i = 0; i < in.stop_size() && i < static_cast<int>(kMaxStops); ++i) {
    const std::string field = absl::StrFormat("sampling.stop[%d]", i);
    if (in.stop(i).empty()) violations.Add(field, "is empty; a stop text needs at least 1 byte");
    if (in.stop(i).size() > kMaxStopBytes) {
      violations.Add(field, "has %d bytes, must be at most %d", in.stop(i).size(), kMaxStopBytes);
    }
    stops.push_back(in.stop(i));
  }
  if (!stops.empty()) {
    auto compiled = StopStrings::Create(std::move(stops));
    if (compiled.ok()) plan->output.stops = *std::move(compiled);
    // What it refuses was said above.
  }
  plan->output.include_stop = in.include_stop();
  plan->output.skip_special_tokens = in.has_skip_special_tokens() ? in.skip_special_tokens() : true;
  plan->output.min_tokens = in.min_tokens();
}

absl::StatusOr<nlohmann::ordered_json> ParseJson(const std::string& text) {
  // Nesting is checked first: the parser itself recurses.
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        quoted = false;
    } else if (text[i] == '"') {
      quoted = true;
    } else if (text[i] == '[' || text[i] == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (text[i] == ']' || text[i] == '}') {
      --depth;
    }
  }
  constexpr int kMaxDepth = 64;
  if (deepest > kMaxDepth) return InvalidArgument("nests %d deep, must be at most %d", deepest, kMaxDepth);
  auto value = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return InvalidArgument("is not JSON");
  return value;
}

// Clients send a call's arguments as JSON in a string; templates want the object.
void ParseArguments(nlohmann::ordered_json& call) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) return;
  nlohmann::ordered_json& function = call["function"];
  if (!function.contains("arguments") || !function["arguments"].is_string()) return;
  auto arguments = ParseJson(function["arguments"].get<std::string>());
  if (arguments.ok() && arguments->is_object()) function["arguments"] = *std::move(arguments);
}

absl::StatusOr<ChatInput> MakeChatInput(const v1::Chat& chat, const std::string& field) {
  ChatInput input;
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::ChatMessage& message = chat.messages(i);
    nlohmann::ordered_json entry;
    entry["role"] = message.role();
    entry["content"] = message.content();
    if (!message.name().empty()) entry["name"] = message.name();
    if (!message.tool_call_id().empty()) entry["tool_call_id"] = message.tool_call_id();
    if (!message.tool_calls_json().empty()) {
      auto calls = ParseJson(message.tool_calls_json());
      const std::string path = absl::StrFormat("%s.messages[%d].tool_calls_json", field, i);
      if (!calls.ok()) return WithContext(calls.status(), path);
      if (!calls->is_array()) return InvalidArgument("%s: must be a JSON array", path);
      for (auto& call : *calls) ParseArguments(call);
      entry["tool_calls"] = *std::move(calls);
    }
    input.messages.push_back(std::move(entry));
  }
  if (!chat.tools_json().empty()) {
    auto tools = ParseJson(chat.tools_json());
    if (!tools.ok()) return WithContext(tools.status(), field + ".tools_json");
    if (!tools->is_array()) return InvalidArgument("%s.tools_json: must be a JSON array", field);
    input.tools = *std::move(tools);
  }
  if (!chat.template_variables_json().empty()) {
    auto variables = ParseJson(chat.template_variables_json());
    if (!variables.ok()) return WithContext(variables.status(), field + ".template_variables_json");
    if (!variables->is_object()) return InvalidArgument("%s.template_variables_json: must be a JSON object", field);
    input.variables = *std::move(variables);
  }
  input.continue_final_message = chat.continue_final_message();
  input.add_generation_prompt = !chat.continue_final_message();
  return input;
}

}  // namespace

void CheckPrompt(const v1::Prompt& prompt, const std::string& field, const RouterConfig& config,
                 std::vector<FieldViolation>* out) {
  Violations violations(out);
  const size_t limit = size_t{config.max_prompt_kib} << 10;
  switch (prompt.input_case()) {
    case v1::Prompt::kText:
      if (prompt.text().size() > limit) {
        violations.Add(field + ".text", "has %d bytes, must be at most %d", prompt.text().size(), limit);
      }
      return;
    case v1::Prompt::kTokens:
      if (prompt.tokens().ids().empty()) violations.Add(field + ".tokens", "has no ids, needs at least 1");
      return;
    case v1::Prompt::kChat: {
      if (prompt.chat().messages().empty()) violations.Add(field + ".chat", "has no messages, needs at least 1");
      if (prompt.chat().ByteSizeLong() > limit) {
        violations.Add(field + ".chat", "has %d bytes, must be at most %d", prompt.chat().ByteSizeLong(), limit);
      }
      for (int i = 0; i < prompt.chat().messages_size(); ++i) {
        if (prompt.chat().messages(i).role().empty()) {
          violations.Add(absl::StrFormat("%s.chat.messages[%d].role", field, i), "is empty");
        }
      }
      return;
    }
    case v1::Prompt::INPUT_NOT_SET:
      violations.Add(field, "has no input: text, tokens or chat is needed");
      return;
  }
}

std::vector<FieldViolation> CheckRequest(const v1::GenerateRequest& request, const RouterConfig& config,
                                         const std::shared_ptr<const ServedModel>& model, GenerationPlan* plan) {
  std::vector<FieldViolation> out;
  Violations violations(&out);
  plan->model = model;
  plan->priority = request.priority();
  plan->cache_salt = request.cache_salt();
  plan->chat = !request.prompts().empty() && request.prompts(0).has_chat();
  plan->request_id = request.request_id();
  if (plan->request_id.empty()) plan->request_id = absl::StrFormat("req-%016x%016x", RandomU64(), RandomU64());
  if (plan->request_id.size() > kMaxRequestIdBytes) {
    violations.Add("request_id", "has %d bytes, must be at most %d", plan->request_id.size(), kMaxRequestIdBytes);
  } else if (!std::all_of(plan->request_id.begin(), plan->request_id.end(), IsIdCharacter)) {
    violations.Add("request_id", "may hold letters, digits, '-', '_', '.' and ':' only");
  }
  if (request.cache_salt().size() > kMaxSaltBytes) {
    violations.Add("cache_salt", "has %d bytes, must be at most %d", request.cache_salt().size(), kMaxSaltBytes);
  }
  if (std::abs(static_cast<int64_t>(request.priority())) > 100) {
    violations.Add("priority", "is %d, must be in [-100, 100]", request.priority());
  }
  const uint32_t most = std::min(kMaxPrompts, config.places());  // those of a request run or wait at the same time
  if (request.prompts().empty() || static_cast<uint32_t>(request.prompts_size()) > most) {
    violations.Add("prompts", "has %d prompts, must be 1 to %d", request.prompts_size(), most);
  } else {
    for (int i = 0; i < request.prompts_size(); ++i) {
      CheckPrompt(request.prompts(i), absl::StrFormat("prompts[%d]", i), config, &out);
    }
  }
  CheckSampling(request.sampling(), *model, config.default_max_tokens, violations, plan);
  return out;
}

std::string TextQueueFull(const RouterConfig& config) {
  return absl::StrFormat("%d requests wait to be tokenized, the most that this router takes", config.places());
}

absl::StatusOr<std::vector<TokenId>> TokenizePrompt(const v1::Prompt& prompt, const std::string& field,
                                                    const ServedModel& model, const std::function<bool()>& cancelled) {
  EncodeOptions options;
  options.cancelled = cancelled;
  absl::StatusOr<std::vector<TokenId>> ids = std::vector<TokenId>();
  switch (prompt.input_case()) {
    case v1::Prompt::kText:
      options.parse_special = prompt.parse_special_tokens();
      ids = model.tokenizer->Encode(prompt.text(), options);
      if (ids.ok() && ids->empty()) return InvalidArgument("%s.text: gives no tokens, at least 1 is needed", field);
      break;
    case v1::Prompt::kTokens: {
      for (const TokenId id : prompt.tokens().ids()) {
        if (id < 0 || static_cast<uint32_t>(id) >= model.vocab_size) {
          return InvalidArgument("%s.tokens: has token %d, the vocabulary has 0 to %d", field, id,
                                 model.vocab_size - 1);
        }
      }
      ids->assign(prompt.tokens().ids().begin(), prompt.tokens().ids().end());
      break;
    }
    case v1::Prompt::kChat: {
      if (!model.chat_template.ok()) return WithContext(model.chat_template.status(), field + ".chat");
      BATON_ASSIGN_OR_RETURN(const ChatInput input, MakeChatInput(prompt.chat(), field + ".chat"));
      const auto segments = (*model.chat_template)->Render(input);
      if (!segments.ok()) {
        // A render budget is about the request's size, not about the server's load.
        const bool budget = segments.status().code() == absl::StatusCode::kResourceExhausted;
        return MakeStatus(budget ? absl::StatusCode::kInvalidArgument : segments.status().code(),
                          field + ".chat: " + StatusMessage(segments.status()));
      }
      options.add_special_tokens = false;
      ids = model.tokenizer->EncodeSegments(*segments, options);
      if (ids.ok() && ids->empty()) return InvalidArgument("%s.chat: gives no tokens, at least 1 is needed", field);
      break;
    }
    case v1::Prompt::INPUT_NOT_SET:
      return InvalidArgument("%s: has no input", field);
  }
  if (!ids.ok()) return WithContext(ids.status(), field);
  return ids;
}

}  // namespace baton
