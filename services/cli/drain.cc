#include <CLI/CLI.hpp>
#include <iostream>

#include "services/cli/client.h"
#include "services/cli/command.h"

namespace baton::cli {
namespace {

struct DrainFlags {
  ConnectionOptions connection{.timeout_seconds = 10};
  std::string worker;
};

int RunDrain(const DrainFlags& flags) {
  const auto client = Client::Create(flags.connection);
  if (!client.ok()) return Fail(client.status());
  if (const CallStatus status = (*client)->DrainWorker(flags.worker); !status.ok()) return Fail(status);
  std::cout << flags.worker << " takes no new work, finishes what it has, and exits\n";
  return 0;
}

}  // namespace

Command AddDrain(CLI::App& program) {
  CLI::App* command = program.add_subcommand("drain", "Lets a worker finish its work and exit");
  auto flags = std::make_shared<DrainFlags>();
  command->add_option("worker", flags->worker, "Address as `baton top` shows it")->required()->type_name("ADDRESS");
  flags->connection.AddTo(*command);
  command->footer("Example:\n  baton drain 127.0.0.1:8102");
  return {command, [flags] { return RunDrain(*flags); }};
}

}  // namespace baton::cli
