#include "common/base/task_pool.h"

namespace baton {

TaskPool::TaskPool(int threads, size_t capacity) : queue_(capacity) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      while (auto task = queue_.Pop()) (*task)();
    });
  }
}

TaskPool::~TaskPool() {
  queue_.Close();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace baton
