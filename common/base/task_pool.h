#pragma once

// Threads for work that takes milliseconds to seconds and must not hold an RPC thread: tokenizing, name look-ups,
// loading.

#include <functional>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"

namespace baton {

class TaskPool {
 public:
  TaskPool(int threads, size_t capacity);
  // Finishes what is queued.
  ~TaskPool();

  // False when the queue is full; the task is then not run.
  bool TryRun(std::function<void()> task) { return queue_.TryPush(std::move(task)); }

 private:
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace baton
