#pragma once

// A kernel's error as a status.

#include <string_view>

#include "absl/status/status.h"
#include "common/device/device.h"
#include "kernels/cuda/stream.h"

namespace baton {

// `what` was being enqueued or started.
inline absl::Status Enqueued(cuda::Error error, std::string_view what) {
  return device::ToStatus(static_cast<int>(error), what);
}

}  // namespace baton
