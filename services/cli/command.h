#pragma once

// What a subcommand is: its flags, and what runs when it was chosen.

#include <functional>

#include "absl/status/status.h"
#include "services/cli/call_error.h"

namespace CLI {
class App;
}

namespace baton::cli {

struct Command {
  CLI::App* flags;
  std::function<int()> run;  // the exit status
};

// Each adds its subcommand to `program`, which must outlive the result.
Command AddGenerate(CLI::App& program);
Command AddChat(CLI::App& program);
Command AddTokenize(CLI::App& program);
Command AddModels(CLI::App& program);
Command AddInspect(CLI::App& program);
Command AddMakeModel(CLI::App& program);
Command AddBench(CLI::App& program);
Command AddTop(CLI::App& program);
Command AddDrain(CLI::App& program);
Command AddHealth(CLI::App& program);

// "baton: ..." to stderr; returns the exit status 1.
int Fail(const CallStatus& status);
int Fail(const absl::Status& status);

// Exit status after Ctrl-C, as shells count it.
inline constexpr int kInterrupted = 130;

}  // namespace baton::cli
