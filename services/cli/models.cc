#include <CLI/CLI.hpp>
#include <iostream>

#include "nlohmann/json.hpp"
#include "services/cli/client.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/text_table.h"

namespace baton::cli {
namespace {

struct ModelsFlags {
  ConnectionOptions connection{.timeout_seconds = 10};
  bool json = false;
};

std::string ModelsJson(const v1::ListModelsResponse& response) {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const v1::Model& model : response.models()) {
    models.push_back({{"name", model.name()},
                      {"ready", model.ready()},
                      {"max_model_len", model.max_model_len()},
                      {"vocab_size", model.vocab_size()},
                      {"prefill_workers", model.prefill_workers()},
                      {"decode_workers", model.decode_workers()},
                      {"has_chat_template", model.has_chat_template()}});
  }
  const nlohmann::ordered_json json = {{"models", std::move(models)}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

int RunModels(const ModelsFlags& flags) {
  const auto client = Client::Create(flags.connection);
  if (!client.ok()) return Fail(client.status());
  v1::ListModelsResponse response;
  if (const CallStatus status = (*client)->ListModels(&response); !status.ok()) return Fail(status);
  if (flags.json) {
    std::cout << ModelsJson(response) << "\n";
    return 0;
  }
  TextTable table(
      {{"model"}, {"ready"}, {"length", true}, {"vocabulary", true}, {"prefill", true}, {"decode", true}, {"chat"}});
  for (const v1::Model& model : response.models()) {
    table.AddRow({model.name(), model.ready() ? "yes" : "no", FormatCount(model.max_model_len()),
                  FormatCount(model.vocab_size()), std::to_string(model.prefill_workers()),
                  std::to_string(model.decode_workers()), model.has_chat_template() ? "yes" : "no"});
  }
  for (const std::string& line : table.Lines()) std::cout << line << "\n";
  return 0;
}

}  // namespace

Command AddModels(CLI::App& program) {
  CLI::App* command = program.add_subcommand("models", "Lists the models that the router serves");
  auto flags = std::make_shared<ModelsFlags>();
  command->add_flag("--json", flags->json, "One line of JSON");
  flags->connection.AddTo(*command);
  command->footer("Example:\n  baton models --json | grep -q '\"ready\":true' && echo ready");
  return {command, [flags] { return RunModels(*flags); }};
}

}  // namespace baton::cli
