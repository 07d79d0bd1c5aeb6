#include <CLI/CLI.hpp>
#include <iostream>

#include "nlohmann/json.hpp"
#include "services/cli/client.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/prompt_input.h"
#include "services/cli/text_table.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TokenizeFlags {
  ConnectionOptions connection{.timeout_seconds = 10};
  std::string model;
  std::vector<std::string> text;
  bool chat = false, parse_special_tokens = false, json = false;
};

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

int RunTokenize(const TokenizeFlags& flags) {
  v1::TokenizeRequest request;
  request.set_model(flags.model);
  request.mutable_prompt()->set_parse_special_tokens(flags.parse_special_tokens);
  const std::string text = PromptText(flags.text);
  if (flags.chat) {
    v1::ChatMessage* message = request.mutable_prompt()->mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(text);
  } else {
    request.mutable_prompt()->set_text(text);
  }
  const auto client = Client::Create(flags.connection);
  if (!client.ok()) return Fail(client.status());
  v1::TokenizeResponse response;
  if (const CallStatus status = (*client)->Tokenize(request, &response); !status.ok()) return Fail(status);

  const auto piece = [&](int i) { return i < response.tokens_size() ? response.tokens(i) : std::string(); };
  if (flags.json) {
    Json json = {{"ids", Json::array()}, {"tokens", Json::array()}};
    for (int i = 0; i < response.ids_size(); ++i) {
      json["ids"].push_back(response.ids(i));
      json["tokens"].push_back(piece(i));
    }
    std::cout << Dump(json) << "\n";
    return 0;
  }
  TextTable table({{"position", true}, {"id", true}, {"token"}});
  for (int i = 0; i < response.ids_size(); ++i) {
    table.AddRow({std::to_string(i), std::to_string(response.ids(i)), Dump(piece(i))});
  }
  for (const std::string& line : table.Lines()) std::cout << line << "\n";
  return 0;
}

}  // namespace

Command AddTokenize(CLI::App& program) {
  CLI::App* command = program.add_subcommand("tokenize", "Shows the token ids of a text");
  auto flags = std::make_shared<TokenizeFlags>();
  command->add_option("text", flags->text, "Text, or - for standard input")->required()->type_name("TEXT");
  command->add_option("--model", flags->model, "Model name; may be left out when the router serves exactly one");
  command->add_flag("--chat", flags->chat, "As a user's message in the model's chat template");
  command->add_flag("--parse_special_tokens", flags->parse_special_tokens, "Control tokens written in the text count");
  command->add_flag("--json", flags->json, "One line of JSON: ids and tokens");
  flags->connection.AddTo(*command);
  command->footer("Example:\n  baton tokenize --chat \"Hello there\"");
  return {command, [flags] { return RunTokenize(*flags); }};
}

}  // namespace baton::cli
