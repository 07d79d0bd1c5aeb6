#pragma once

// Turns a ChatInput into the variables a chat template reads, as transformers does it.

#include <map>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/text/chat_template.h"
#include "common/text/jinja_interpreter.h"

namespace baton {

// What is put behind the content of a message that is to be continued; found again by its origin.
inline constexpr std::string_view kContinueMarker = "CONTINUE_FINAL_MESSAGE_TAG ";

// Defines messages, tools, add_generation_prompt, the special tokens and the caller's own variables.
absl::Status DefineChatVariables(const ChatInput& input, const std::map<std::string, std::string>& special_tokens,
                                 jinja::Interpreter& interpreter);

}  // namespace baton
