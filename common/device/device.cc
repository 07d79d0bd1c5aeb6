#include "common/device/device.h"

#include <cuda_runtime.h>

#include "common/base/status.h"

namespace baton::device {
namespace {

// CUDA's text for a machine without any driver is that of one with too old a driver.
const char* WhyNone(cudaError_t counted) {
  if (counted == cudaSuccess) return "none found";
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    return "no driver of NVIDIA found (libcuda.so.1)";
  }
  return cudaGetErrorString(counted);
}

}  // namespace

absl::StatusOr<DeviceInfo> Open(int ordinal) {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  // Without a driver the first, with one and nothing to drive the second: the same to us.
  if (counted == cudaErrorInsufficientDriver || counted == cudaErrorNoDevice ||
      (counted == cudaSuccess && count == 0)) {
    cudaGetLastError();
    return FailedPrecondition("no CUDA device: %s", WhyNone(counted));
  }
  BATON_RETURN_IF_ERROR(ToStatus(counted, "counting CUDA devices"));
  if (ordinal < 0 || ordinal >= count) return InvalidArgument("CUDA device %d; there are %d", ordinal, count);
  BATON_RETURN_IF_ERROR(Use(ordinal));
  cudaDeviceProp properties;
  BATON_RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, ordinal), "asking for the device's properties"));
  size_t free_bytes, total_bytes;
  BATON_RETURN_IF_ERROR(ToStatus(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for the device's free memory"));
  return DeviceInfo{.name = properties.name,
                    .compute_capability = 10 * properties.major + properties.minor,
                    .multiprocessors = properties.multiProcessorCount,
                    .total_bytes = total_bytes,
                    .free_bytes = free_bytes};
}

absl::Status Use(int ordinal) { return ToStatus(cudaSetDevice(ordinal), "choosing the CUDA device"); }

absl::StatusOr<int> Current() {
  int ordinal = 0;
  BATON_RETURN_IF_ERROR(ToStatus(cudaGetDevice(&ordinal), "asking for the CUDA device"));
  return ordinal;
}

absl::Status ToStatus(int error, std::string_view what) {
  const auto cuda_error = static_cast<cudaError_t>(error);
  if (cuda_error == cudaSuccess) return absl::OkStatus();
  if (cuda_error == cudaErrorMemoryAllocation) {
    size_t free_bytes = 0, total_bytes = 0;
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    cudaGetLastError();  // not an error of what comes next
    return ResourceExhausted("%s: out of memory of the CUDA device; %d of %d bytes are free", what, free_bytes,
                             total_bytes);
  }
  return Internal("%s: %s, CUDA error %d", what, cudaGetErrorName(cuda_error), error);
}

absl::Status LastError(std::string_view what) { return ToStatus(cudaGetLastError(), what); }

}  // namespace baton::device
