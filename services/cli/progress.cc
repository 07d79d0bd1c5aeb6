#include "services/cli/progress.h"

#include <unistd.h>

#include <iostream>

#include "services/cli/bar.h"

namespace baton::cli {

Progress::~Progress() {
  if (shown_.time_since_epoch().count() != 0) std::cerr << "\r\033[K" << std::flush;
}

bool Progress::Due() {
  const Clock::time_point now = Clock::now();
  if (isatty(STDERR_FILENO) == 0 || now - start_ < std::chrono::milliseconds(500)) return false;
  if (now - shown_ < std::chrono::milliseconds(100)) return false;
  shown_ = now;
  return true;
}

void Progress::Draw(const std::string& line) { std::cerr << "\r\033[K" << line << std::flush; }

void Progress::ShowBytes(uint64_t done, uint64_t total) {
  if (Due()) Draw(ProgressLine(label_, done, total));
}

void Progress::ShowSteps(uint64_t done, uint64_t total, const std::string& now) {
  if (Due()) Draw(StepsLine(label_, done, total, now));
}

}  // namespace baton::cli
