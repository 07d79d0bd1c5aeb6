#pragma once

// A neighbour that takes a core, to see what a step loses by it.

#include <atomic>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"

namespace baton::cli {

// Keeps one core busy, as another program would, until this object goes.
class BusyCore {
 public:
  // The last core that this process may use. FAILED_PRECONDITION where that is its only one.
  static absl::StatusOr<std::unique_ptr<BusyCore>> Start();
  ~BusyCore();

 private:
  BusyCore() = default;

  std::atomic<bool> runs_{false}, stop_{false};
  std::thread thread_;  // a forked process would make the first write to each page of ours a copy
};

}  // namespace baton::cli
