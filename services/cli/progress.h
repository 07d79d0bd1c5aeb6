#pragma once

// Progress of long work on standard error: a bar on a terminal once the work proves long, nothing otherwise.

#include <chrono>
#include <cstdint>
#include <string>

namespace baton::cli {

class Progress {
 public:
  explicit Progress(std::string label) : label_(std::move(label)) {}
  ~Progress();  // takes the bar away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Bytes done and in total.
  void ShowBytes(uint64_t done, uint64_t total);
  // Steps done and in total, and what comes now.
  void ShowSteps(uint64_t done, uint64_t total, const std::string& now);

 private:
  using Clock = std::chrono::steady_clock;
  bool Due();
  void Draw(const std::string& line);

  const std::string label_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_;
};

}  // namespace baton::cli
