#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <deque>
#include <iostream>
#include <optional>
#include <thread>

#include "common/config/number_check.h"
#include "services/cli/client.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/worker_table.h"

namespace baton::cli {
namespace {

struct TopFlags {
  ConnectionOptions connection{.timeout_seconds = 10};
  double interval = 1, window = 60;
  bool once = false, json = false;
};

// Draws over what it drew before, cut to the window.
void Redraw(const std::vector<std::string>& lines) {
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) window = {24, 80, 0, 0};
  std::string screen = "\033[H";
  for (size_t i = 0; i < lines.size() && i + 1 < window.ws_row; ++i) {
    screen += std::string(CutToWidth(lines[i], window.ws_col)) + "\033[K\n";
  }
  std::cout << screen << "\033[J" << std::flush;
}

// Each look goes to a fresh screen on a terminal, and below the last one otherwise. A router that stops answering is
// shown and asked again; one that never answered ends the command.
int RunTop(const TopFlags& flags) {
  const auto client = Client::Create(flags.connection);
  if (!client.ok()) return Fail(client.status());
  const bool redraw = isatty(STDOUT_FILENO) != 0 && !flags.once && !flags.json;
  const auto start = std::chrono::steady_clock::now();
  std::deque<WorkerSnapshot> looks;  // of the last window, oldest first
  while (true) {
    const auto before = looks.empty() ? std::nullopt : std::optional(looks.back());
    const auto since = looks.empty() ? std::nullopt : std::optional(looks.front());
    WorkerSnapshot now;
    const CallStatus status = (*client)->ListWorkers(&now.workers);
    now.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!status.ok() && (!before || !redraw)) return Fail(status);
    if (!status.ok()) {
      Redraw({flags.connection.router + ": " + CallErrorText(status)});
    } else if (flags.json) {
      std::cout << TopJson(now, before, since) << std::endl;
    } else if (redraw) {
      if (!before) std::cout << "\033[2J";
      Redraw(TopLines(now, before, since));
    } else {
      if (before) std::cout << "\n";
      for (const std::string& line : TopLines(now, before, since)) std::cout << line << "\n";
      std::cout << std::flush;
    }
    if (flags.once) return 0;
    if (status.ok()) looks.push_back(std::move(now));
    // The oldest look that is kept is a window old, or the first.
    while (looks.size() > 1 && looks[1].seconds <= looks.back().seconds - flags.window) looks.pop_front();
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval));
  }
}

}  // namespace

Command AddTop(CLI::App& program) {
  CLI::App* command = program.add_subcommand("top", "Shows the workers, their batches and KV blocks, again and again");
  auto flags = std::make_shared<TopFlags>();
  command->add_flag("--once", flags->once,
                    "One look, then exit; latencies are those since the router's start, rates need two looks");
  command->add_option("--interval", flags->interval, "Seconds between two looks")
      ->check(RealNumberCheck(0.05, 3600))
      ->capture_default_str();
  command->add_option("--window", flags->window, "Seconds that latencies go back")
      ->check(RealNumberCheck(1, 3600))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One line of JSON a look");
  flags->connection.AddTo(*command);
  command->footer(
      "Examples:\n"
      "  baton top --interval 0.5\n"
      "  baton top --once --json | jq '.workers[] | {address, state}'");
  return {command, [flags] { return RunTop(*flags); }};
}

}  // namespace baton::cli
