#pragma once

// The CUDA devices of this process, and CUDA's errors as statuses.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::device {

struct DeviceInfo {
  std::string name;
  int compute_capability = 0;  // 10 * major + minor
  int multiprocessors = 0;
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

// Makes `ordinal` the calling thread's device and says what it is. FAILED_PRECONDITION "no CUDA device" without a
// driver or a device, INVALID_ARGUMENT when there are fewer.
absl::StatusOr<DeviceInfo> Open(int ordinal);

// Makes `ordinal`, which Open has seen, the calling thread's device: memory, streams and events are made on it and
// kernels go to it.
absl::Status Use(int ordinal);
// The calling thread's device: the first, unless it chose one.
absl::StatusOr<int> Current();

// OK for 0. `error` is a cudaError_t, or a kernel's cuda::Error; `what` was being done.
absl::Status ToStatus(int error, std::string_view what);

// An asynchronous error of work that was enqueued before, or OK; does not wait.
absl::Status LastError(std::string_view what);

}  // namespace baton::device
