#include "tests/fakes/no_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<bool> refused{false};

}  // namespace

// Of the program, so found before the C library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  static const auto next = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return refused ? EAGAIN : next(thread, attributes, run, argument);
}

namespace baton {

NoThreads::NoThreads() { refused = true; }
NoThreads::~NoThreads() { refused = false; }

}  // namespace baton
