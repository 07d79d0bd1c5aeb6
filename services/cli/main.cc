#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/version.h"
#include "services/cli/command.h"

namespace baton::cli {

int Fail(const CallStatus& status) {
  std::cerr << "baton: " << CallErrorText(status) << "\n";
  return 1;
}

int Fail(const absl::Status& status) {
  return Fail(CallStatus{static_cast<int>(status.code()), StatusMessage(status), ""});
}

namespace {

// What to say of a word where a subcommand is wanted: CLI11 reports it as a missing subcommand.
std::optional<std::string> UnknownSubcommand(const CLI::App& program) {
  const CLI::App* at = &program;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  const std::vector<std::string> words = at->remaining();
  if (at->get_require_subcommand_min() == 0 || words.empty() || words.front().starts_with('-')) return std::nullopt;
  if (at == &program) return "there is no subcommand '" + words.front() + "'";
  std::string known;
  for (const CLI::App* each : at->get_subcommands([](const CLI::App*) { return true; })) {
    known += (known.empty() ? "" : ", ") + each->get_name();
  }
  return at->get_name() + " has no '" + words.front() + "'; it has " + known;
}

int Run(int argc, char** argv) {
  CLI::App program("Talks to a Baton router, and looks at models.", "baton");
  program.set_version_flag("--version", std::string("baton ") + kVersion);
  program.require_subcommand(1);
  program.footer(
      "Examples:\n"
      "  baton generate --chat \"Why is the sky blue?\"\n"
      "  baton chat --system \"Answer in one sentence.\"\n"
      "  baton top\n"
      "  baton inspect ./Qwen2.5-0.5B-Instruct --memory_gib 10\n"
      "baton SUBCOMMAND --help tells more. BATON_ROUTER names the router for all of them.");
  const std::vector<Command> commands = {
      AddGenerate(program), AddChat(program),   AddTokenize(program), AddModels(program),    AddTop(program),
      AddDrain(program),    AddHealth(program), AddInspect(program),  AddMakeModel(program), AddBench(program)};
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return program.exit(success, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    const std::string what = UnknownSubcommand(program).value_or(error.what());
    std::cerr << "baton: " << what << " (--help lists subcommands and flags)\n";
    return 2;
  }
  for (const Command& command : commands) {
    if (command.flags->parsed()) return command.run();
  }
  return 2;
}

}  // namespace
}  // namespace baton::cli

int main(int argc, char** argv) { return baton::cli::Run(argc, argv); }
