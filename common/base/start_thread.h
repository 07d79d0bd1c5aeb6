#pragma once

// Threads that may be refused: a process, its user or its container has only so many.

#include <system_error>
#include <type_traits>

#include "absl/status/statusor.h"
#include "common/base/status.h"

namespace baton {

// What `make` returns, a thread or what owns one; RESOURCE_EXHAUSTED with the system's reason where it cannot start.
template <typename Make>
absl::StatusOr<std::invoke_result_t<Make>> StartThread(Make&& make) {
  try {
    return make();
  } catch (const std::system_error& error) {
    return ResourceExhausted("a thread cannot be started: %s", error.what());
  }
}

}  // namespace baton
