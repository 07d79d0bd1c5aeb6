#include "common/base/thread_pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

TEST(ThreadPool, EveryTaskRunsOnceWhateverTheThreadCount) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> counts(static_cast<size_t>(tasks));
      pool.Run(tasks, [&](int64_t task, int worker) {
        EXPECT_LT(worker, threads);
        ++counts[static_cast<size_t>(task)];
      });
      for (const auto& count : counts) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, ALateWorkerNeverTouchesALaterRun) {
  ThreadPool pool(4);
  // Runs so short that workers are still waking up when the next one starts.
  for (int run = 0; run < 20000; ++run) {
    std::vector<int> seen(1 + run % 5, -1);  // gone when Run has returned
    pool.Run(static_cast<int64_t>(seen.size()), [&](int64_t task, int) { seen[task] = run; });
    for (const int value : seen) ASSERT_EQ(value, run);
  }
}

TEST(ThreadPool, WritesOfOneRunAreSeenByTheNext) {
  ThreadPool pool(3);
  std::vector<int64_t> values(257, 0);
  for (int round = 0; round < 2000; ++round) {
    pool.Run(257, [&](int64_t task, int) { ++values[static_cast<size_t>(256 - task)]; });
  }
  for (int64_t value : values) EXPECT_EQ(value, 2000);
}

}  // namespace
}  // namespace baton
