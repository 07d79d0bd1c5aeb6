#include "services/cli/bench/machine.h"

#include <sched.h>

#include <fstream>
#include <thread>

#include "absl/strings/str_format.h"
#include "hwy/targets.h"
#include "services/cli/format.h"

namespace baton::cli {
namespace {

// The value of the first "key : value" line.
std::string ValueOf(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    if (value != std::string::npos) return line.substr(value);
  }
  return "";
}

}  // namespace

std::string MachineLine() {
  std::string model = ValueOf("/proc/cpuinfo", "model name");
  if (model.empty()) model = "unknown processor";
  const int64_t best = hwy::SupportedTargets() & -hwy::SupportedTargets();
  const std::string kib = ValueOf("/proc/meminfo", "MemTotal");
  return absl::StrFormat("%s, %d cores for this process, %s, %s", model, std::thread::hardware_concurrency(),
                         hwy::TargetName(best), FormatBytes(1024.0 * std::atof(kib.c_str())));
}

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace baton::cli
