#pragma once

// Fork-join pool for kernels: the caller is worker 0, the others spin briefly and then sleep. One Run at a time,
// from one thread. Allocates nothing in Run. Work is split by index, so results cannot depend on the thread count.

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace baton {

class ThreadPool {
 public:
  // `threads` counts the caller; 0 means one per core that this process may use. `pin` binds worker i to the i-th
  // allowed core (never the caller).
  explicit ThreadPool(int threads, bool pin = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(task, worker) for every task in [0, tasks); tasks are claimed in ascending order. Returns when all
  // have ended. Must not be called from inside a body.
  template <typename Body>
  void Run(int64_t tasks, const Body& body) {
    RunErased(
        tasks,
        [](const void* context, int64_t task, int worker) { (*static_cast<const Body*>(context))(task, worker); },
        &body);
  }

 private:
  using Erased = void (*)(const void* context, int64_t task, int worker);
  void RunErased(int64_t tasks, Erased body, const void* context);
  bool RunOneTask(int worker);
  void WorkerLoop(int worker);

  std::vector<std::thread> workers_;
  // Of the current Run. Read only between claiming a task and counting it as done: Run cannot end meanwhile.
  Erased body_ = nullptr;
  const void* context_ = nullptr;
  // Tasks of the current Run that are not claimed yet (low half) and their number (high half), so that one exchange
  // claims a task and proves that the Run it belongs to is still the current one. A worker that wakes late finds
  // nothing left and disturbs nobody; Run waits for tasks, not for workers.
  alignas(64) std::atomic<uint64_t> claims_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace baton
