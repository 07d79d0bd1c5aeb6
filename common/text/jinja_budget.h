#pragma once

// What one render has used so far, against its RenderLimits. Every method that can refuse returns RESOURCE_EXHAUSTED
// with the limit.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/text/render_limits.h"

namespace baton::jinja {

class Budget {
 public:
  explicit Budget(const RenderLimits& limits) : limits_(limits), deadline_(SteadyClock().Now() + limits.wall_time) {}

  const RenderLimits& limits() const { return limits_; }

  absl::Status Step(int64_t count = 1) {
    steps_ += count;
    if (steps_ < next_check_) return absl::OkStatus();
    return Check();
  }

  // Before a string of `size` bytes is put together.
  absl::Status CheckString(size_t size) const {
    if (size <= limits_.string_bytes) return absl::OkStatus();
    return ResourceExhausted("chat template made a string of %d bytes, the limit is %d", size, limits_.string_bytes);
  }

  // Before a string is kept: its size, the work it was, and the memory it takes.
  absl::Status ReserveString(size_t size, size_t memory_bytes) {
    BATON_RETURN_IF_ERROR(CheckString(size));
    BATON_RETURN_IF_ERROR(Memory(memory_bytes));
    return Step(1 + static_cast<int64_t>(size / 64));
  }

  // Before a list or dictionary of `items` more items is made.
  absl::Status ReserveItems(size_t items, size_t already = 0) {
    if (items + already > limits_.list_items) {
      return ResourceExhausted("chat template made a list of %d items, the limit is %d", items + already,
                               limits_.list_items);
    }
    container_bytes_ += static_cast<int64_t>(64 + items * kBytesPerItem);
    BATON_RETURN_IF_ERROR(Memory(0));
    return Step(1 + static_cast<int64_t>(items));
  }

  absl::Status Output(size_t size) {
    if (size > limits_.output_bytes) {
      return ResourceExhausted("chat template wrote %d bytes, the limit is %d", size, limits_.output_bytes);
    }
    return absl::OkStatus();
  }

  int64_t* live_string_bytes() { return &live_string_bytes_; }

  // One nested evaluation; ok() says whether it was still allowed.
  class Nesting {
   public:
    explicit Nesting(Budget& budget) : budget_(budget) { ++budget_.depth_; }
    ~Nesting() { --budget_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    absl::Status Check() const {
      if (budget_.depth_ <= budget_.limits_.depth) return absl::OkStatus();
      return ResourceExhausted("chat template nests deeper than the limit of %d", budget_.limits_.depth);
    }

   private:
    Budget& budget_;
  };

 private:
  static constexpr size_t kBytesPerItem = 40;
  static constexpr int64_t kStepsPerCheck = 2048;

  absl::Status Memory(size_t more) {
    const size_t used = static_cast<size_t>(live_string_bytes_ + container_bytes_) + more;
    if (used <= limits_.memory_bytes) return absl::OkStatus();
    return ResourceExhausted("chat template needs %d bytes of memory, the limit is %d", used, limits_.memory_bytes);
  }

  absl::Status Check() {
    if (steps_ > limits_.steps) {
      return ResourceExhausted("chat template took more than the limit of %d steps", limits_.steps);
    }
    if (SteadyClock().Now() > deadline_) {
      return ResourceExhausted("chat template ran longer than the limit of %d ms",
                               std::chrono::duration_cast<std::chrono::milliseconds>(limits_.wall_time).count());
    }
    next_check_ = std::min(steps_ + kStepsPerCheck, limits_.steps + 1);
    return absl::OkStatus();
  }

  const RenderLimits limits_;
  const TimePoint deadline_;
  int64_t steps_ = 0;
  int64_t next_check_ = 0;
  int64_t live_string_bytes_ = 0;
  int64_t container_bytes_ = 0;
  int depth_ = 0;
};

}  // namespace baton::jinja
