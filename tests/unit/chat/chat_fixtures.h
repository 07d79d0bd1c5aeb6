#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/text/chat_template.h"

namespace baton {

// The clock of the golden prompts: Tuesday, 2025-03-04 15:06:07.
std::tm GoldenTime();

std::string ReadGolden(const std::string& name);  // a file of tests/golden/chat
nlohmann::ordered_json ReadGoldenJson(const std::string& name);

// Fails the test if `source` is no valid template.
std::shared_ptr<const ChatTemplate> ParseOrDie(const std::string& source,
                                               std::map<std::string, std::string> special_tokens = {});

// One user message per text, then one assistant message and so on.
ChatInput Conversation(const std::vector<std::string>& contents);

// From a golden file's description.
ChatInput ReadConversation(const nlohmann::ordered_json& json);

absl::StatusOr<std::string> RenderText(const ChatTemplate& chat_template, const ChatInput& input,
                                       const RenderLimits& limits = {});

// What the template prints for one user message "hi"; the error's text in angle brackets if it fails.
std::string RenderSource(const std::string& source);

}  // namespace baton
