#include "tests/contract/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "common/base/status.h"

extern char** environ;

namespace baton {

ChildProcess::ChildProcess(const std::vector<std::string>& arguments) {
  int in[2], out[2];
  BATON_CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  BATON_CHECK(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  input_ = in[1];
  output_ = out[0];
}

ChildProcess::~ChildProcess() {
  Kill();
  close(input_);
  close(output_);
}

void ChildProcess::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  BATON_CHECK(write(input_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

std::optional<std::string> ChildProcess::ReadLine(std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry{output_, POLLIN, 0};
    if (left.count() <= 0 || poll(&entry, 1, static_cast<int>(left.count())) <= 0) return std::nullopt;
    std::array<char, 4096> piece;
    const ssize_t count = read(output_, piece.data(), piece.size());
    if (count <= 0) return std::nullopt;
    buffer_.append(piece.data(), static_cast<size_t>(count));
  }
}

std::string ChildProcess::Ask(const std::string& line) {
  WriteLine(line);
  return ReadLine().value_or("");
}

void ChildProcess::Signal(int number) const {
  kill(pid_, number);
  // On a busy machine its other threads go on until the one that takes the signal is given a processor.
  if (number == SIGSTOP) waitpid(pid_, nullptr, WUNTRACED);
}

void ChildProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace baton
