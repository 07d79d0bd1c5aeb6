#include "common/telemetry/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "common/base/clock.h"

namespace baton {
namespace {

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

void AddProcessMetrics(Metrics& metrics, const std::string& version) {
  metrics.Gauge("baton_build_info", "1; the program's version is a label.", {{"version", version}}).Set(1);
  metrics.Gauge("process_start_time_seconds", "Start of the process, Unix time.").Set(WallTimeSeconds());
  prometheus::Counter& cpu = metrics.Counter("process_cpu_seconds_total", "User and system time of the process.");
  prometheus::Gauge& resident =
      metrics.Gauge("process_resident_memory_bytes", "Resident memory of the process, shared KV pools included.");
  metrics.OnScrape([&cpu, &resident] {
    const double grown = CpuSeconds() - cpu.Value();
    if (grown > 0) cpu.Increment(grown);
    resident.Set(ResidentBytes());
  });
}

}  // namespace baton
