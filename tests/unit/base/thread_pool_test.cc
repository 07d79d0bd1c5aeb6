#include "common/base/thread_pool.h"

#include <gtest/gtest.h>

#include <thread>
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

TEST(ThreadPoolTeam, EveryTaskOfEveryRunHappensOnceAndInOrderOfTheRuns) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 300; ++round) {
      constexpr int64_t kRuns = 20, kTasks = 7;
      std::vector<int64_t> first(kTasks, 0), second(kTasks, 0);  // not atomic: a Run sees what the one before wrote
      pool.RunTogether([&](TaskRunner& team) {
        EXPECT_EQ(team.threads(), threads);
        for (int64_t run = 0; run < kRuns; ++run) {
          team.Run(kTasks, [&](int64_t task, int worker) {
            EXPECT_LT(worker, threads);
            first[task] = second[kTasks - 1 - task] + 1;
          });
          team.Run(kTasks, [&](int64_t task, int) { second[task] = first[kTasks - 1 - task]; });
          team.Run(0, [&](int64_t, int) { ADD_FAILURE(); });
        }
      });
      for (const int64_t value : second) ASSERT_EQ(value, kRuns);
    }
  }
}

TEST(ThreadPoolTeam, AMemberThatComesLateIsNotWaitedForAndCatchesUp) {
  ThreadPool pool(3);
  std::atomic<bool> done{false};
  std::atomic<int> members{0}, tasks{0};
  pool.RunTogether([&](TaskRunner& team) {
    // Only one member takes part until all Runs are over.
    if (members.fetch_add(1) > 0) {
      while (!done) std::this_thread::yield();
    }
    for (int run = 0; run < 100; ++run) team.Run(3, [&](int64_t, int) { ++tasks; });
    done = true;
  });
  EXPECT_EQ(members, 3);
  EXPECT_EQ(tasks, 300);
}

TEST(ThreadPoolTeam, TheThreadsMeetOnce) {
  ThreadPool pool(2);
  const uint64_t before = pool.runs();
  pool.RunTogether([&](TaskRunner& team) {
    for (int run = 0; run < 10; ++run) team.Run(4, [](int64_t, int) {});
  });
  EXPECT_EQ(pool.runs(), before + 1);
}

}  // namespace
}  // namespace baton
