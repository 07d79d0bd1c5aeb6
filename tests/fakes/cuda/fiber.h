#pragma once

// A stack of its own that code can leave in the middle and come back to: one switch costs tens of nanoseconds.
// All fibers of a thread run on that thread; AddressSanitizer and ThreadSanitizer are told of every switch.

#include <cstddef>

namespace baton::stand_in {

class Fiber {
 public:
  // The context that the calling thread runs on already. It can be left and come back to, and has no entry.
  Fiber();
  // Runs `entry(argument)` when first switched to. `entry` never returns: it switches away for the last time. The
  // lowest page of the stack is inaccessible. Throws std::bad_alloc.
  Fiber(void (*entry)(void*), void* argument, size_t stack_bytes);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Continues in `to`; returns when somebody switches back to this fiber, which is the running one.
  void SwitchTo(Fiber& to);
  // The next switch to this fiber starts at the entry again; what it was in the middle of is forgotten.
  void Restart();

 private:
  static void Main(Fiber* self);

  void* stack_pointer_ = nullptr;  // while it does not run
  std::byte* stack_ = nullptr;     // lowest byte, the inaccessible page included; null for a thread's own context
  size_t stack_bytes_ = 0;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  // What the sanitizers know this fiber by.
  void* fake_stack_ = nullptr;
  const void* known_bottom_ = nullptr;
  size_t known_bytes_ = 0;
  void* tsan_fiber_ = nullptr;
};

}  // namespace baton::stand_in
