#include "services/cli/bench/busy_core.h"

#include <pthread.h>
#include <sched.h>

#include <vector>

#include "common/base/status.h"
#include "services/cli/bench/machine.h"

namespace baton::cli {

absl::StatusOr<std::unique_ptr<BusyCore>> BusyCore::Start() {
  const std::vector<int> cores = AllowedCores();
  if (cores.size() < 2) {
    return FailedPrecondition("--steal takes one of several cores; this process may use %d", cores.size());
  }
  std::unique_ptr<BusyCore> busy(new BusyCore());
  busy->thread_ = std::thread([core = cores.back(), busy = busy.get()] {
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(core, &last);
    pthread_setaffinity_np(pthread_self(), sizeof(last), &last);
    busy->runs_ = true;
    busy->runs_.notify_all();
    while (!busy->stop_.load(std::memory_order_relaxed)) {
    }
  });
  busy->runs_.wait(false);
  return busy;
}

BusyCore::~BusyCore() {
  stop_ = true;
  thread_.join();
}

}  // namespace baton::cli
