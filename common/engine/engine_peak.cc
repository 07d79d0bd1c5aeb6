#include "common/engine/engine_peak.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "common/base/clock.h"
#include "common/base/thread_pool.h"
#include "kernels/linear.h"
#include "kernels/peak.h"

namespace baton {
namespace {

constexpr int64_t kSide = 256;         // of the square matrix: 256 KiB, half of a usual L2 cache
constexpr int64_t kRowsAThread = 384;  // whole register tiles for each thread
constexpr uint64_t kSlice = 1 << 20;   // bytes read by one task

// Calls `body`, which does `amount` of something, until `time` is over; the best rate of a call.
template <typename Body>
double BestRate(double amount, Duration time, const Body& body) {
  const SteadyClock clock;
  const TimePoint begin = clock.Now();
  double best = 0;
  do {
    const TimePoint start = clock.Now();
    body();
    best = std::max(best, amount / std::max(1e-9, Seconds(clock.Now() - start)));
  } while (clock.Now() - begin < time);
  return best;
}

double ProbeFlops(ThreadPool& pool, Duration time) {
  const int64_t rows = kRowsAThread * pool.threads();
  AlignedBuffer memory(cpu::PanelMatrix{DType::kF32, kSide, kSide}.bytes());
  const cpu::PanelMatrix matrix{DType::kF32, kSide, kSide, memory.data()};
  std::fill_n(memory.floats(), kSide * kSide, 1.0f / kSide);
  AlignedBuffer x(static_cast<uint64_t>(rows * kSide) * sizeof(float));
  AlignedBuffer y(static_cast<uint64_t>(rows * kSide) * sizeof(float));
  std::fill_n(x.floats(), rows * kSide, 1.0f);
  const cpu::LinearWorkspace workspace(rows, kSide, pool.threads());
  return BestRate(2.0 * static_cast<double>(rows * kSide * kSide), time,
                  [&] { cpu::Linear(matrix, nullptr, x.floats(), kSide, rows, y.floats(), kSide, workspace, pool); });
}

double ProbeBytes(const CpuWeights& weights, ThreadPool& pool, Duration time) {
  struct Slice {
    const std::byte* data;
    uint64_t bytes;
  };
  std::vector<Slice> slices;
  uint64_t total = 0;
  for (const AlignedBuffer& buffer : weights.memory) {
    for (uint64_t at = 0; at < buffer.size(); at += kSlice) {
      slices.push_back({buffer.data() + at, std::min(kSlice, buffer.size() - at)});
      total += slices.back().bytes;
    }
  }
  std::atomic<uint64_t> sum{0};  // keeps the reads
  return BestRate(static_cast<double>(total), time, [&] {
    pool.Run(static_cast<int64_t>(slices.size()), [&](int64_t task, int) {
      sum += static_cast<uint64_t>(cpu::ReadMemory(slices[task].data, slices[task].bytes));
    });
  });
}

}  // namespace

EnginePeak ProbeCpuPeak(const CpuWeights& weights, int threads, Duration time) {
  try {
    ThreadPool pool(threads);
    return {ProbeFlops(pool, time), ProbeBytes(weights, pool, time)};
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace baton
