#pragma once

// A real child process that a test talks to by lines and kills, stops or continues. Killed and reaped on destruction.

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace baton {

class ChildProcess {
 public:
  // Starts `arguments[0]`; aborts the test program when that fails.
  explicit ChildProcess(const std::vector<std::string>& arguments);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void WriteLine(const std::string& line);
  // The next line of its output, without the newline; nothing at its end of file or after `timeout`.
  std::optional<std::string> ReadLine(std::chrono::seconds timeout = std::chrono::seconds(60));
  // One line out, one line back; empty when none came.
  std::string Ask(const std::string& line);

  void Signal(int number) const;  // SIGSTOP: it stands still on return
  void Kill();  // SIGKILL, and waits until it is gone
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int input_ = -1;   // we write
  int output_ = -1;  // we read
  std::string buffer_;
};

}  // namespace baton
