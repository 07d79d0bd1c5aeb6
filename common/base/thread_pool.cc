#include "common/base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "common/base/status.h"

namespace baton {
namespace {

constexpr int kSpins = 2000;  // some tens of microseconds: longer than the gap between two operations of a layer

std::vector<int> AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <typename T>
T SpinThenWait(std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (T now = value.load(std::memory_order_acquire); now != old) return now;
    Pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

int ThreadPool::ThreadsOf(int threads) { return threads > 0 ? threads : static_cast<int>(AllowedCores().size()); }

ThreadPool::ThreadPool(int threads, bool pin) {
  const std::vector<int> cores = AllowedCores();
  threads = ThreadsOf(threads);
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { WorkerLoop(worker); });
    if (pin) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cores[worker % cores.size()], &set);
      pthread_setaffinity_np(workers_.back().native_handle(), sizeof(set), &set);
    }
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunErased(int64_t tasks, Erased body, const void* context) {
  if (tasks <= 0) return;
  ++runs_;
  if (workers_.empty() || tasks == 1) {
    for (int64_t task = 0; task < tasks; ++task) body(context, task, 0);
    return;
  }
  BATON_CHECK(tasks <= UINT32_MAX);
  const auto count = static_cast<uint32_t>(tasks);
  body_ = body;
  context_ = context;
  done_.store(0, std::memory_order_relaxed);
  claims_.store(uint64_t{count} << 32 | count, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  while (RunOneTask(0)) {
  }
  for (uint32_t done = done_.load(std::memory_order_acquire); done != count;) done = SpinThenWait(done_, done);
}

void ThreadPool::Team::RunErased(int64_t tasks, Erased body, const void* context) {
  if (tasks <= 0) return;
  BATON_CHECK(tasks <= int64_t{UINT32_MAX - end_});
  const uint32_t begin = end_;
  end_ += static_cast<uint32_t>(tasks);
  std::atomic<uint32_t>& next = pool_.team_next_;
  std::atomic<uint32_t>& done = pool_.team_done_;
  // Every task of the Runs before is done, so `next` is at least `begin`; a late member finds it beyond `end_`.
  for (uint32_t task = next.load(std::memory_order_relaxed); task < end_;) {
    if (!next.compare_exchange_weak(task, task + 1, std::memory_order_relaxed)) continue;
    body(context, task - begin, worker_);
    if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == end_) done.notify_all();
    task = next.load(std::memory_order_relaxed);
  }
  for (uint32_t now = done.load(std::memory_order_acquire); now < end_;) now = SpinThenWait(done, now);
}

bool ThreadPool::RunOneTask(int worker) {
  uint64_t claims = claims_.load(std::memory_order_acquire);
  do {
    if (static_cast<uint32_t>(claims) == 0) return false;
  } while (!claims_.compare_exchange_weak(claims, claims - 1, std::memory_order_acquire));
  const auto count = static_cast<uint32_t>(claims >> 32);
  body_(context_, count - static_cast<uint32_t>(claims), worker);
  if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) done_.notify_one();
  return true;
}

void ThreadPool::WorkerLoop(int worker) {
  uint32_t seen = 0;
  while (true) {
    seen = SpinThenWait(generation_, seen);
    if (stop_) return;
    while (RunOneTask(worker)) {
    }
  }
}

}  // namespace baton
