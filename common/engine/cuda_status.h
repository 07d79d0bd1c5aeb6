#pragma once

// A kernel's error as a status.

#include <string_view>

#include "absl/status/status.h"
#include "common/base/status.h"
#include "common/device/device.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/stream.h"

namespace baton {

// `what` was being enqueued or started.
inline absl::Status Enqueued(cuda::Error error, std::string_view what) {
  const int number = static_cast<int>(error);
  if (number < cuda::kGemmError) return device::ToStatus(number, what);
  constexpr int kNotAllocated = 3;  // CUBLAS_STATUS_ALLOC_FAILED
  return MakeStatus(
      number == cuda::kGemmError + kNotAllocated ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
      absl::StrFormat("%s: cublasStatus_t %d", what, number - cuda::kGemmError));
}

}  // namespace baton
