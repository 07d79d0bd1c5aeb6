#include "services/cli/conversation.h"

namespace baton::cli {

ChatLine ParseChatLine(const std::string& line) {
  using Kind = ChatLine::Kind;
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  const std::string text = line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
  if (text[0] != '/') return {Kind::kMessage, text};
  if (text.starts_with("//")) return {Kind::kMessage, text.substr(1)};
  const size_t blank = text.find_first_of(" \t");
  const std::string command = text.substr(0, blank);
  const size_t rest = blank == std::string::npos ? blank : text.find_first_not_of(" \t", blank);
  if (command == "/system") return {Kind::kSystem, rest == std::string::npos ? "" : text.substr(rest)};
  if (command == "/reset") return {Kind::kReset, ""};
  if (command == "/quit" || command == "/exit") return {Kind::kQuit, ""};
  if (command == "/help") return {Kind::kHelp, ""};
  return {Kind::kUnknownCommand, command};
}

void Conversation::EndTurn(std::string answer) {
  if (answer.empty()) {
    if (!messages_.empty()) messages_.pop_back();
    return;
  }
  messages_.push_back({"assistant", std::move(answer)});
}

v1::Chat Conversation::ToChat() const {
  v1::Chat chat;
  const auto add = [&](const std::string& role, const std::string& text) {
    v1::ChatMessage* message = chat.add_messages();
    message->set_role(role);
    message->set_content(text);
  };
  if (!system_.empty()) add("system", system_);
  for (const Message& message : messages_) add(message.role, message.text);
  return chat;
}

}  // namespace baton::cli
