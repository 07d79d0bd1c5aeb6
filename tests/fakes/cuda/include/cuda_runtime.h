#pragma once

// The part of CUDA's runtime API that Baton uses, on the host. Found instead of CUDA's own header where .cu files and
// common/device are compiled for tests. Same names, same rules:
//   - work of a stream runs when somebody waits for it and not before, so a missing wait shows;
//   - device memory is a heap allocation of exact size that holds 0xff at first;
//   - a copy from pinned memory reads it when the stream gets there, one from other host memory at the call;
//   - while a stream is captured, what CUDA forbids then fails;
//   - there are as many devices as the environment's BATON_STAND_IN_DEVICES says, else one. Memory, streams and events
//     are of the calling thread's device; a kernel in another's stream, or one that is given another device's memory,
//     is an error. Copies reach all of them.
// tests/fakes/cuda/stand_in.h has what tests may set and ask.

#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessNotEnabled = 705,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
};

enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum { cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor;
  int multiProcessorCount;
};

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

cudaError_t cudaDriverGetVersion(int* version);  // 0: no driver
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaMalloc(void** pointer, size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

// More than 48 KiB of dynamic shared memory must be allowed first, up to 227 KiB.
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

namespace baton::stand_in {

// What work on a device is given that may be pointers; those into another device's memory are an error.
using Words = std::vector<const void*>;

// The words of a kernel's arguments, without what lies between their members.
template <typename... Arguments>
Words WordsOf(const Arguments&... arguments) {
  Words words;
  [[maybe_unused]] const auto add = [&words]<typename T>(T argument) {
    __builtin_clear_padding(&argument);
    for (size_t at = 0; at + sizeof(void*) <= sizeof(T); at += sizeof(void*)) {
      words.emplace_back();
      std::memcpy(&words.back(), reinterpret_cast<const std::byte*>(&argument) + at, sizeof(void*));
    }
  };
  (add(arguments), ...);
  return words;
}

// What `kernel<<<grid, block, shared_bytes, stream>>>(...)` is on a device; `body` is one thread's run.
// `kernel` is known to cudaFuncSetAttribute. Refused as on a device: extents, and shared memory, beyond what there is.
cudaError_t LaunchKernel(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                         std::function<void()> body, const Words& words);
// Other work of a stream's device, such as a matrix product of the stand-in's cuBLASLt.
cudaError_t Enqueue(cudaStream_t stream, std::function<void()> work, const Words& words);
// Work that waits for others, such as a message of the stand-in's NCCL: `attempt` is called again and again until it
// says that it is over, and must not block.
cudaError_t EnqueueUntil(cudaStream_t stream, std::function<bool()> attempt, const Words& words);
int DeviceOf(cudaStream_t stream);

}  // namespace baton::stand_in
