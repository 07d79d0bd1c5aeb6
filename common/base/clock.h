#pragma once

// Steady time as seen by code that expires, renews or measures; tests pass a FakeClock and move it by hand.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace baton {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_ns_.load())); }
  void Advance(Duration by) { now_ns_ += by.count(); }

 private:
  std::atomic<int64_t> now_ns_{1'000'000'000};
};

inline double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Unix time in seconds, for logs and start times only; never for measuring.
double WallTimeSeconds();

}  // namespace baton
