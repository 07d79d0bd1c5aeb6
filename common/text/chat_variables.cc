#include "common/text/chat_variables.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/text/jinja_functions.h"
#include "common/text/jinja_json.h"

namespace baton {

namespace {

using jinja::Dict;
using jinja::List;
using jinja::Origin;
using jinja::Runtime;
using jinja::Text;
using jinja::Value;

// Templates build control tokens from these ('<|' + role + '|>'); any other role is text of the caller.
constexpr std::string_view kKnownRoles[] = {"system",   "user",      "assistant", "tool",       "model",
                                            "function", "developer", "ipython",   "observation"};

// Names under which a message's reasoning is given; the first is what templates read.
constexpr std::string_view kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

constexpr std::string_view kReservedVariables[] = {"messages", "tools", "add_generation_prompt", "chat_template"};

absl::Status Set(Runtime& runtime, Dict& dict, std::string_view key, Value value) {
  BATON_ASSIGN_OR_RETURN(const Value name, runtime.NewString(key, Origin::kCaller));
  return runtime.Insert(dict, name, std::move(value));
}

absl::Status TrustKnownRole(Runtime& runtime, Dict& message) {
  const Value* role = message.Find("role");
  if (role == nullptr || !role->IsString()) return absl::OkStatus();
  if (std::find(std::begin(kKnownRoles), std::end(kKnownRoles), role->bytes()) == std::end(kKnownRoles)) {
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(Value trusted, runtime.NewString(role->bytes(), Origin::kTemplate));
  return Set(runtime, message, "role", std::move(trusted));
}

// Whatever name the reasoning came under, templates find it as reasoning_content, and as thinking.
absl::Status AliasReasoning(Runtime& runtime, Dict& message) {
  for (const std::string_view field : kReasoningFields) {
    const Value* found = message.Find(field);
    if (found == nullptr || found->IsNone()) continue;
    const Value reasoning = *found;
    if (message.Find("thinking") == nullptr) BATON_RETURN_IF_ERROR(Set(runtime, message, "thinking", reasoning));
    return Set(runtime, message, "reasoning_content", reasoning);
  }
  return absl::OkStatus();
}

bool HasRole(const Value& message, std::string_view role) {
  const Value* value = message.As<Dict*>()->Find("role");
  return value != nullptr && value->IsString() && value->bytes() == role;
}

absl::Status MergeSystem(Runtime& runtime, List& messages) {
  if (messages.items.size() < 2 || !HasRole(messages.items[0], "system") || !HasRole(messages.items[1], "user")) {
    return absl::OkStatus();
  }
  Dict& user = *messages.items[1].As<Dict*>();
  const Value* system_content = messages.items[0].As<Dict*>()->Find("content");
  const Value* user_content = user.Find("content");
  if (system_content == nullptr || user_content == nullptr || !system_content->IsString() ||
      !user_content->IsString()) {
    return InvalidArgument("system and user messages can be merged only if both have text as content");
  }
  Text merged = system_content->text();
  merged.Append("\n\n", Origin::kCaller);
  merged.Append(user_content->text());
  BATON_ASSIGN_OR_RETURN(Value content, runtime.NewString(std::move(merged)));
  BATON_RETURN_IF_ERROR(Set(runtime, user, "content", std::move(content)));
  messages.items.erase(messages.items.begin());
  return absl::OkStatus();
}

absl::StatusOr<Value> WithMarker(Runtime& runtime, const Value& content) {
  Text marked = content.text();
  marked.Append(kContinueMarker, Origin::kMarker);
  return runtime.NewString(std::move(marked));
}

// The marker goes behind the content of the last message, or behind its last part that has text.
absl::Status MarkFinalMessage(Runtime& runtime, const List& messages) {
  if (messages.items.empty()) return InvalidArgument("continue_final_message needs a message to continue");
  Dict& message = *messages.items.back().As<Dict*>();
  const Value* content = message.Find("content");
  if (content != nullptr && content->IsString()) {
    BATON_ASSIGN_OR_RETURN(Value marked, WithMarker(runtime, *content));
    return Set(runtime, message, "content", std::move(marked));
  }
  if (content != nullptr && content->Is<List*>()) {
    const std::vector<Value>& parts = content->As<List*>()->items;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const Value* text = part->Is<Dict*>() ? part->As<Dict*>()->Find("text") : nullptr;
      if (text == nullptr || !text->IsString()) continue;
      BATON_ASSIGN_OR_RETURN(Value marked, WithMarker(runtime, *text));
      return Set(runtime, *part->As<Dict*>(), "text", std::move(marked));
    }
  }
  return InvalidArgument("continue_final_message needs text in the last message, which has none");
}

absl::StatusOr<Value> MakeMessages(const ChatInput& input, Runtime& runtime) {
  if (!input.messages.is_array()) {
    return InvalidArgument("messages are a list, not of type %s", input.messages.type_name());
  }
  for (size_t i = 0; i < input.messages.size(); ++i) {
    if (!input.messages[i].is_object()) {
      return InvalidArgument("message %d is an object, not of type %s", i, input.messages[i].type_name());
    }
  }
  BATON_ASSIGN_OR_RETURN(const Value messages, jinja::FromJson(runtime, input.messages, Origin::kCaller));
  List& list = *messages.As<List*>();
  for (const Value& message : list.items) {
    BATON_RETURN_IF_ERROR(TrustKnownRole(runtime, *message.As<Dict*>()));
    BATON_RETURN_IF_ERROR(AliasReasoning(runtime, *message.As<Dict*>()));
  }
  if (input.merge_system_into_user) BATON_RETURN_IF_ERROR(MergeSystem(runtime, list));
  if (input.continue_final_message) BATON_RETURN_IF_ERROR(MarkFinalMessage(runtime, list));
  return messages;
}

absl::Status CheckVariableName(const std::string& name, const std::map<std::string, std::string>& special_tokens) {
  if (name == "chat_template") {
    return InvalidArgument("chat templates in requests are not accepted; a model has its own");
  }
  const bool reserved =
      std::find(std::begin(kReservedVariables), std::end(kReservedVariables), name) != std::end(kReservedVariables);
  if (reserved || special_tokens.count(name) > 0 || jinja::HasFunction(name)) {
    return InvalidArgument("template variable '%s' cannot be set by a request", name.substr(0, 100));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DefineChatVariables(const ChatInput& input, const std::map<std::string, std::string>& special_tokens,
                                 jinja::Interpreter& interpreter) {
  Runtime& runtime = interpreter.runtime();
  BATON_ASSIGN_OR_RETURN(Value messages, MakeMessages(input, runtime));
  interpreter.Define("messages", std::move(messages));

  if (!input.tools.is_null() && !input.tools.is_array()) {
    return InvalidArgument("tools are a list, not of type %s", input.tools.type_name());
  }
  Value tools;  // None, as transformers passes it
  if (!input.tools.empty()) {
    BATON_ASSIGN_OR_RETURN(tools, jinja::FromJson(runtime, input.tools, Origin::kCaller));
  }
  interpreter.Define("tools", std::move(tools));
  interpreter.Define("documents", Value());
  interpreter.Define("add_generation_prompt", input.add_generation_prompt && !input.continue_final_message);

  for (const auto& [name, token] : special_tokens) {
    BATON_ASSIGN_OR_RETURN(Value text, runtime.NewString(token, Origin::kTemplate));
    interpreter.Define(name, std::move(text));
  }

  if (!input.variables.is_null() && !input.variables.is_object()) {
    return InvalidArgument("template variables are an object, not of type %s", input.variables.type_name());
  }
  if (input.variables.is_object()) {
    for (auto entry = input.variables.begin(); entry != input.variables.end(); ++entry) {
      BATON_RETURN_IF_ERROR(CheckVariableName(entry.key(), special_tokens));
      BATON_ASSIGN_OR_RETURN(Value value, jinja::FromJson(runtime, entry.value(), Origin::kCaller));
      interpreter.Define(entry.key(), std::move(value));
    }
  }
  return absl::OkStatus();
}

}  // namespace baton
