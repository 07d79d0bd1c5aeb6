#pragma once

// Ctrl-C as a call instead of the end of the process.

#include <atomic>
#include <functional>
#include <thread>

namespace baton::cli {

class InterruptWatch {
 public:
  // `on_interrupt` runs on a thread of its own at each SIGINT. Make it before threads that must not end by the signal,
  // gRPC's included: they inherit the mask.
  explicit InterruptWatch(std::function<void()> on_interrupt);
  // The signal ends the process again.
  ~InterruptWatch();

  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace baton::cli
