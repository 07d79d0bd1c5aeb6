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
