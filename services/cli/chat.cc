#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <optional>

#include "services/cli/client.h"
#include "services/cli/command.h"
#include "services/cli/conversation.h"
#include "services/cli/format.h"
#include "services/cli/interrupt.h"
#include "services/cli/sampling_flags.h"

namespace baton::cli {
namespace {

constexpr char kHelp[] =
    "/reset        forget what was said\n"
    "/system TEXT  change the system message; without TEXT there is none\n"
    "/quit         leave (also Ctrl-D)\n"
    "//...         a message that begins with /\n"
    "Ctrl-C stops the answer that is being written (over a pipe: the program).\n";

struct ChatFlags {
  ConnectionOptions connection;
  SamplingFlags sampling;
  std::string system;
};

class ChatSession {
 public:
  ChatSession(const ChatFlags& flags, Client* client) : flags_(flags), client_(client), conversation_(flags.system) {}

  // Reads lines until the end of input or /quit.
  int Run() {
    if (interactive_) std::cout << "/help lists the commands, Ctrl-D leaves.\n";
    std::string line;
    while (Prompt(), std::getline(std::cin, line)) {
      const ChatLine input = ParseChatLine(line);
      if (input.kind == ChatLine::Kind::kQuit) return exit_status_;
      Handle(input);
    }
    if (interactive_) std::cout << "\n";
    return exit_status_;
  }

 private:
  void Prompt() const {
    if (interactive_) std::cout << "> " << std::flush;
  }

  void Handle(const ChatLine& input) {
    switch (input.kind) {
      case ChatLine::Kind::kMessage:
        return Answer(input.text);
      case ChatLine::Kind::kReset:
        return conversation_.Reset();
      case ChatLine::Kind::kSystem:
        return conversation_.SetSystem(input.text);
      case ChatLine::Kind::kHelp:
        std::cerr << kHelp;
        return;
      case ChatLine::Kind::kUnknownCommand:
        std::cerr << "baton: no command " << OneLine(input.text) << " (/help lists them)\n";
        if (!interactive_) exit_status_ = 1;
        return;
      case ChatLine::Kind::kEmpty:
      case ChatLine::Kind::kQuit:
        return;
    }
  }

  void Answer(const std::string& text) {
    conversation_.AddUser(text);
    v1::StreamGenerateRequest request;
    flags_.sampling.ApplyTo(request.mutable_request());
    *request.mutable_request()->add_prompts()->mutable_chat() = conversation_.ToChat();
    std::string answer;
    const CallStatus status = client_->StreamGenerate(request, [&](const v1::StreamGenerateResponse& message) {
      for (const v1::ChoiceDelta& delta : message.deltas()) {
        answer += delta.text();
        std::cout << (terminal_ ? TerminalSafe(delta.text()) : delta.text());
      }
      std::cout << std::flush;
    });
    if (!answer.empty() || status.ok()) std::cout << std::endl;
    conversation_.EndTurn(std::move(answer));  // a stopped answer counts as far as it got
    if (status.ok() || status.cancelled()) return;
    exit_status_ = Fail(status);
    if (interactive_) exit_status_ = 0;
  }

  const ChatFlags& flags_;
  Client* const client_;
  const bool interactive_ = isatty(STDIN_FILENO) != 0;
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  Conversation conversation_;
  int exit_status_ = 0;
};

int RunChat(const ChatFlags& flags) {
  std::atomic<Client*> running{nullptr};
  // Only who sits before it can mean the answer alone; a chat over a pipe is ended by Ctrl-C like any program.
  std::optional<InterruptWatch> watch;
  if (isatty(STDIN_FILENO) != 0) {
    watch.emplace([&] {
      Client* client = running.load();
      if (client != nullptr && client->CancelCall()) return;
      std::fputs("\n(Ctrl-D or /quit leaves)\n> ", stderr);
    });
  }
  const auto client = Client::Create(flags.connection);
  if (!client.ok()) return Fail(client.status());
  running = client->get();
  const int exit_status = ChatSession(flags, client->get()).Run();
  running = nullptr;
  return exit_status;
}

}  // namespace

Command AddChat(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("chat", "Talks to a model; standard input may be a pipe, a message a line");
  auto flags = std::make_shared<ChatFlags>();
  command->add_option("--system", flags->system, "System message");
  flags->sampling.AddTo(*command);
  flags->connection.AddTo(*command);
  command->footer(std::string("Commands in the conversation:\n") + kHelp +
                  "Examples:\n"
                  "  baton chat --system \"You are terse.\" --temperature 0.7\n"
                  "  printf 'My name is Ada.\\nWhat is my name?\\n' | baton chat");
  return {command, [flags] { return RunChat(*flags); }};
}

}  // namespace baton::cli
