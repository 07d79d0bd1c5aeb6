#pragma once

// What tests may set and ask of the CUDA that runs on the host.

#include <cstdint>
#include <optional>
#include <string>

namespace baton::stand_in {

// Order of a block's threads for the kernels enqueued from now on; see BlockRunner::Launch.
void SetOrder(std::optional<uint64_t> seed);

// Why a kernel failed; empty while none has. Taking it makes the devices usable again, which real ones would not be.
std::string TakeKernelError();

// The kernel that `device` runs after `kernels` more fails.
void FailKernel(int device, uint64_t kernels);

// Up to 8.
void SetDeviceCount(int count);

// Kernels run and graphs launched so far.
uint64_t KernelsRun();
uint64_t GraphsLaunched();

// Bytes of device and pinned memory that are allocated.
uint64_t AllocatedBytes();

// cudaMemGetInfo's total of every device; more cannot be allocated. 1 GiB at first. Graphs take some of it, and kernels
// from when they are first used.
void SetDeviceBytes(uint64_t bytes);

}  // namespace baton::stand_in
