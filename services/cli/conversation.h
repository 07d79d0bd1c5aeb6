#pragma once

// The state of `baton chat`: what was said, and what a typed line means.

#include <string>
#include <vector>

#include "baton/v1/inference.pb.h"

namespace baton::cli {

struct ChatLine {
  enum class Kind { kEmpty, kMessage, kReset, kSystem, kQuit, kHelp, kUnknownCommand };
  Kind kind = Kind::kEmpty;
  std::string text;  // of the message; of /system; the unknown command
};

// Commands begin with '/'; "//" begins a message with one '/'.
ChatLine ParseChatLine(const std::string& line);

class Conversation {
 public:
  explicit Conversation(std::string system) : system_(std::move(system)) {}

  void SetSystem(std::string system) { system_ = std::move(system); }
  void Reset() { messages_.clear(); }
  void AddUser(std::string text) { messages_.push_back({"user", std::move(text)}); }
  // The answer to the last message; an empty one takes that message back, so that roles keep alternating.
  void EndTurn(std::string answer);

  v1::Chat ToChat() const;
  size_t messages() const { return messages_.size(); }

 private:
  struct Message {
    std::string role, text;
  };
  std::string system_;
  std::vector<Message> messages_;
};

}  // namespace baton::cli
