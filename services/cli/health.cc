#include <CLI/CLI.hpp>
#include <iostream>

#include "services/cli/client.h"
#include "services/cli/command.h"

namespace baton::cli {
namespace {

struct HealthFlags {
  ConnectionOptions connection{.timeout_seconds = 2};
  std::string service;
};

int RunHealth(const HealthFlags& flags) {
  const auto client = Client::Create(flags.connection);
  if (!client.ok()) return Fail(client.status());
  bool serving = false;
  if (const CallStatus status = (*client)->CheckHealth(flags.service, &serving); !status.ok()) return Fail(status);
  std::cout << (serving ? "SERVING\n" : "NOT_SERVING\n");
  return serving ? 0 : 1;
}

}  // namespace

Command AddHealth(CLI::App& program) {
  CLI::App* command = program.add_subcommand("health", "Asks a router or worker whether it serves (grpc.health.v1)");
  auto flags = std::make_shared<HealthFlags>();
  command->add_option("address", flags->connection.router, "Address of any of the programs, host:port")
      ->required()
      ->type_name("ADDRESS");
  command
      ->add_option("service", flags->service,
                   "Readiness: baton.v1.InferenceService of a router, baton.internal.v1.PrefillService and "
                   "baton.internal.v1.DecodeService of workers. Left out: liveness")
      ->type_name("SERVICE");
  flags->connection.AddTlsAndTimeoutTo(*command);
  command->footer(
      "Exit status: 0 serving, 1 not.\nExample:\n  baton health 127.0.0.1:8102 baton.internal.v1.DecodeService");
  return {command, [flags] { return RunHealth(*flags); }};
}

}  // namespace baton::cli
