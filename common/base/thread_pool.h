#pragma once

// Fork-join pool for kernels: the caller is worker 0, the others spin briefly and then sleep. One Run at a time,
// from one thread. Allocates nothing in Run. Work is split by index, so results cannot depend on the thread count.
//
// A chain of short operations is cheaper as a team: RunTogether starts every thread once, all of them walk through the
// same code, and a Run of the team only shares out its tasks and waits until all of them are done. Nobody waits for a
// thread that has no task: one that comes late finds nothing left of the operations before and catches up.

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace baton {

// Where kernels put their tasks: a pool, or one member of a team of its threads.
class TaskRunner {
 public:
  virtual int threads() const = 0;

  // Calls body(task, worker) for every task in [0, tasks); tasks are claimed in ascending order. Returns when all
  // have ended, and then what they wrote is seen. Must not be called from inside a body. In a team every member makes
  // the same calls with the same number of tasks.
  template <typename Body>
  void Run(int64_t tasks, const Body& body) {
    RunErased(
        tasks,
        [](const void* context, int64_t task, int worker) { (*static_cast<const Body*>(context))(task, worker); },
        &body);
  }

 protected:
  using Erased = void (*)(const void* context, int64_t task, int worker);
  ~TaskRunner() = default;
  virtual void RunErased(int64_t tasks, Erased body, const void* context) = 0;
};

class ThreadPool final : public TaskRunner {
 public:
  // `threads` counts the caller; 0 means one per core that this process may use. `pin` binds worker i to the i-th
  // allowed core (never the caller).
  explicit ThreadPool(int threads, bool pin = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int threads() const override { return static_cast<int>(workers_.size()) + 1; }
  // How many a pool made with `threads` has.
  static int ThreadsOf(int threads);

  // Calls body(TaskRunner& team) on every thread, at the same time as far as they are free. What the body does outside
  // the team's tasks happens on each thread: it may read what others wrote in tasks of earlier Runs, and write nothing
  // shared.
  template <typename Body>
  void RunTogether(const Body& body) {
    team_next_.store(0, std::memory_order_relaxed);
    team_done_.store(0, std::memory_order_relaxed);
    Run(threads(), [&](int64_t, int worker) {
      Team team(*this, worker);
      body(static_cast<TaskRunner&>(team));
    });
  }

  // Runs so far, of which each is one meeting of all threads.
  uint64_t runs() const { return runs_; }

 private:
  class Team final : public TaskRunner {
   public:
    Team(ThreadPool& pool, int worker) : pool_(pool), worker_(worker) {}
    int threads() const override { return pool_.threads(); }

   private:
    void RunErased(int64_t tasks, Erased body, const void* context) override;
    ThreadPool& pool_;
    const int worker_;
    uint32_t end_ = 0;  // tasks of all Runs up to the current one
  };

  void RunErased(int64_t tasks, Erased body, const void* context) override;
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
  // Of the current RunTogether: tasks claimed and tasks done, counted through all Runs of the team.
  alignas(64) std::atomic<uint32_t> team_next_{0};
  alignas(64) std::atomic<uint32_t> team_done_{0};
  std::atomic<bool> stop_{false};
  uint64_t runs_ = 0;
};

}  // namespace baton
