#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>

#include "common/config/number_check.h"
#include "services/cli/answer_json.h"
#include "services/cli/choice_order.h"
#include "services/cli/client.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/interrupt.h"
#include "services/cli/prompt_input.h"
#include "services/cli/report_text.h"
#include "services/cli/sampling_flags.h"

namespace baton::cli {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct GenerateFlags {
  ConnectionOptions connection;
  SamplingFlags sampling;
  std::vector<std::string> prompt;
  std::string system, request_id;
  bool chat = false, no_stream = false, stats = false, json = false;
};

v1::GenerateRequest MakeRequest(const GenerateFlags& flags) {
  v1::GenerateRequest request;
  flags.sampling.ApplyTo(&request);
  request.set_request_id(flags.request_id);
  const std::string text = PromptText(flags.prompt);
  v1::Prompt* prompt = request.add_prompts();
  if (!flags.chat && flags.system.empty()) {
    prompt->set_text(text);
    return request;
  }
  const auto add = [&](const char* role, const std::string& content) {
    v1::ChatMessage* message = prompt->mutable_chat()->add_messages();
    message->set_role(role);
    message->set_content(content);
  };
  if (!flags.system.empty()) add("system", flags.system);
  add("user", text);
  return request;
}

// Prints an answer as it comes, as text or as JSON lines, and what is to be said after it.
class AnswerPrinter {
 public:
  AnswerPrinter(const GenerateFlags& flags, double start)
      : flags_(flags), start_(start), latency_(start), order_(flags.sampling.n.value_or(1)) {}

  void OnMessage(const v1::StreamGenerateResponse& message) {
    const double now = Now();
    if (flags_.json && !message.model().empty()) {
      PrintLine(StartJson(message.request_id(), message.model(), message.seed()));
    }
    for (const v1::ChoiceDelta& delta : message.deltas()) {
      latency_.OnTokens(delta.index(), static_cast<size_t>(delta.token_ids_size()), now);
      if (flags_.json) {
        PrintLine(DeltaJson(delta));
      } else {
        Show(delta);
      }
    }
    for (const v1::PromptReport& report : message.reports()) reports_.push_back(report);
    std::fflush(stdout);
  }

  void OnResponse(const v1::GenerateResponse& response) {
    if (flags_.json) PrintLine(StartJson(response.request_id(), response.model(), response.seed()));
    for (const v1::Choice& choice : response.choices()) {
      if (flags_.json) {
        PrintLine(ChoiceJson(choice));
      } else {
        Show(choice);
      }
    }
    for (const v1::PromptReport& report : response.reports()) reports_.push_back(report);
  }

  // After the call. `complete`: it ended well.
  void Finish(bool complete) {
    ClientTimes times{Now() - start_, latency_.time_to_first_token(), latency_.gaps()};
    if (flags_.json) {
      for (const v1::PromptReport& report : reports_) PrintLine(ReportJson(report, times));
    }
    if (open_line_) Print("\n");  // the shell's prompt belongs on its own line
    std::fflush(stdout);
    if (flags_.json || !complete) return;
    for (const auto& [choice, logprobs] : logprobs_) std::fputs(("\n" + LogprobsText(logprobs)).c_str(), stderr);
    if (!flags_.stats) return;
    for (const v1::PromptReport& report : reports_) std::fputs(("\n" + ReportText(report, times)).c_str(), stderr);
  }

 private:
  template <typename Message>
  void Show(const Message& message) {
    auto& logprobs = logprobs_[message.index()];
    logprobs.insert(logprobs.end(), message.logprobs().begin(), message.logprobs().end());
    if (logprobs.empty()) logprobs_.erase(message.index());
    const bool finished = message.finish_reason() != v1::FINISH_REASON_UNSPECIFIED;
    const std::string text = order_.Add(message.index(), message.text(), finished);
    Print(terminal_ ? TerminalSafe(text) : text);
  }
  void Print(const std::string& text) {
    if (text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    open_line_ = text.back() != '\n';
  }
  void PrintLine(const std::string& line) { Print(line + "\n"); }

  const GenerateFlags& flags_;
  const double start_;
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  LatencyRecorder latency_;
  ChoiceOrder order_;
  std::vector<v1::PromptReport> reports_;
  std::map<uint32_t, std::vector<v1::TokenLogprob>> logprobs_;  // by choice
  bool open_line_ = false;
};

int RunGenerate(const GenerateFlags& flags) {
  const v1::GenerateRequest request = MakeRequest(flags);  // may read standard input, which Ctrl-C still ends
  std::atomic<Client*> running{nullptr};
  std::atomic<bool> interrupted{false};
  const InterruptWatch watch([&] {
    interrupted = true;
    if (Client* client = running.load()) client->CancelCall();
  });
  const auto client = Client::Create(flags.connection);
  if (!client.ok()) return Fail(client.status());
  running = client->get();

  AnswerPrinter printer(flags, Now());
  CallStatus status;
  if (flags.no_stream) {
    v1::GenerateResponse response;
    status = (*client)->Generate(request, &response);
    if (status.ok()) printer.OnResponse(response);
  } else {
    v1::StreamGenerateRequest stream_request;
    *stream_request.mutable_request() = request;
    status = (*client)->StreamGenerate(stream_request, [&](const auto& message) { printer.OnMessage(message); });
  }
  running = nullptr;
  printer.Finish(status.ok());
  if (interrupted && status.cancelled()) return kInterrupted;
  if (!status.ok()) return Fail(status);
  if (std::ferror(stdout) != 0) {
    std::fputs("baton: cannot write to standard output\n", stderr);
    return 1;
  }
  return 0;
}

}  // namespace

Command AddGenerate(CLI::App& program) {
  CLI::App* command = program.add_subcommand("generate", "Streams the answer to one prompt");
  auto flags = std::make_shared<GenerateFlags>();
  command
      ->add_option("prompt", flags->prompt, "Text, or - for standard input; put -- before a prompt that begins with -")
      ->required()
      ->type_name("PROMPT");
  command->add_flag("--chat", flags->chat, "Take the prompt as a user's message of a chat (the model's chat template)");
  command->add_option("--system", flags->system, "System message; implies --chat");
  command->add_option("--n", flags->sampling.n, "Independent answers, shown one after the other")
      ->check(WholeNumberCheck(1, 64))
      ->group("Sampling");
  flags->sampling.AddTo(*command);
  command->add_option("--request_id", flags->request_id, "Identity of the request, for logs and traces");
  command->add_flag("--no_stream", flags->no_stream, "Print the whole answer at its end");
  command->add_flag("--stats", flags->stats, "Then print tokens, latencies, workers and KV moved to standard error");
  command->add_flag("--json", flags->json, "One JSON object a line: start, delta (or choice), report");
  flags->connection.AddTo(*command);
  command->footer(
      "Examples:\n"
      "  baton generate --chat --stats \"Why is the sky blue?\"\n"
      "  baton generate --temperature 0 --max_tokens 32 --stop END \"Once upon a time\"\n"
      "  cat article.txt | baton generate --chat --system \"Summarize in three sentences.\" -");
  return {command, [flags] { return RunGenerate(*flags); }};
}

}  // namespace baton::cli
