#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/block_runner.h"
#include "tests/fakes/cuda/stand_in.h"

namespace {

struct Operation {
  std::function<void()> run;      // one of these four
  std::function<bool()> attempt;  // again and again, until it says that it is over
  cudaEvent_t record = nullptr;   // ... the event's `number`-th record
  cudaEvent_t wait = nullptr;     // ... until the event's `number`-th record
  uint64_t number = 0;
};

}  // namespace

struct CUevent_st {
  uint64_t recorded = 0;   // calls of cudaEventRecord
  uint64_t completed = 0;  // of which the stream has reached so many
  CUstream_st* stream = nullptr;
};
struct CUgraph_st {
  std::vector<Operation> operations;
};
struct CUgraphExec_st {
  std::vector<Operation> operations;
};
struct CUstream_st {
  std::deque<Operation> pending;
  CUgraph_st* capture = nullptr;
};

namespace {

// The one device. Every call takes the lock, and work runs under it.
struct Device {
  std::recursive_mutex mutex;
  std::set<CUstream_st*> streams;
  CUstream_st default_stream;
  std::map<const std::byte*, size_t> device_memory, pinned_memory;
  size_t allocated = 0;
  size_t total = size_t{1} << 30;
  std::optional<uint64_t> order_seed;
  uint64_t kernels = 0, graphs = 0;
  std::string kernel_error;
  cudaError_t last_error = cudaSuccess;
  int captures = 0;

  Device() { streams.insert(&default_stream); }
};

Device& TheDevice() {
  static Device device;
  return device;
}

cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess) TheDevice().last_error = error;
  return error;
}

cudaError_t State() { return TheDevice().kernel_error.empty() ? cudaSuccess : cudaErrorLaunchFailure; }

CUstream_st* OrDefault(cudaStream_t stream) { return stream == nullptr ? &TheDevice().default_stream : stream; }

// False when the stream is held up by something that is not over yet.
bool RunUntil(CUstream_st* stream, const std::function<bool()>& reached) {
  while (!reached() && !stream->pending.empty()) {
    Operation& operation = stream->pending.front();
    if (operation.wait != nullptr) {
      CUevent_st* event = operation.wait;
      const uint64_t number = operation.number;
      if (event->completed < number && event->stream != nullptr &&
          !RunUntil(event->stream, [&] { return event->completed >= number; })) {
        return false;
      }
    } else if (operation.attempt) {
      if (State() == cudaSuccess && !operation.attempt()) return false;
    } else if (operation.record != nullptr) {
      operation.record->completed = std::max(operation.record->completed, operation.number);
    } else if (State() == cudaSuccess) {  // after a failed kernel nothing runs any more
      operation.run();
    }
    stream->pending.pop_front();
  }
  return true;
}

using Lock = std::unique_lock<std::recursive_mutex>;

// Lets other threads call CUDA while `stream` is held up.
void RunUntil(CUstream_st* stream, Lock& lock, const std::function<bool()>& reached) {
  while (!RunUntil(stream, reached)) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
}

void RunAll(CUstream_st* stream, Lock& lock) {
  RunUntil(stream, lock, [] { return false; });
}

void RunAll(Lock& lock) {
  const std::set<CUstream_st*> streams = TheDevice().streams;
  for (CUstream_st* stream : streams) {
    if (TheDevice().streams.contains(stream)) RunAll(stream, lock);
  }
}

cudaError_t Add(cudaStream_t to, Operation operation) {
  CUstream_st* stream = OrDefault(to);
  if (stream->capture != nullptr) {
    stream->capture->operations.push_back(std::move(operation));
  } else {
    stream->pending.push_back(std::move(operation));
  }
  return Remember(State());
}

bool IsPinnedOrDevice(const void* pointer) {
  Device& device = TheDevice();
  for (const auto* memory : {&device.device_memory, &device.pinned_memory}) {
    auto after = memory->upper_bound(static_cast<const std::byte*>(pointer));
    if (after == memory->begin()) continue;
    --after;
    if (static_cast<const std::byte*>(pointer) < after->first + std::max<size_t>(after->second, 1)) return true;
  }
  return false;
}

cudaError_t Allocate(std::map<const std::byte*, size_t>& memory, void** pointer, size_t bytes, bool counts) {
  Device& device = TheDevice();
  if (device.captures > 0) return Remember(cudaErrorStreamCaptureUnsupported);
  size_t in_device = 0;
  for (const auto& [start, size] : device.device_memory) in_device += size;
  if (counts && bytes > device.total - in_device) return Remember(cudaErrorMemoryAllocation);
  if (posix_memalign(pointer, 256, bytes) != 0) return Remember(cudaErrorMemoryAllocation);
  std::memset(*pointer, 0xff, bytes);
  memory[static_cast<std::byte*>(*pointer)] = bytes;
  device.allocated += bytes;
  return cudaSuccess;
}

cudaError_t Free(std::map<const std::byte*, size_t>& memory, void* pointer) {
  Device& device = TheDevice();
  Lock lock(device.mutex);
  if (pointer == nullptr) return cudaSuccess;
  const auto found = memory.find(static_cast<std::byte*>(pointer));
  if (found == memory.end()) return Remember(cudaErrorInvalidValue);
  RunAll(lock);  // as cudaFree waits for the device
  device.allocated -= found->second;
  memory.erase(found);
  std::free(pointer);
  return cudaSuccess;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaGetLastError() {
  Lock lock(TheDevice().mutex);
  return std::exchange(TheDevice().last_error, State());
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : Remember(cudaErrorInvalidDevice); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return Remember(cudaErrorInvalidDevice);
  *properties = {"host stand-in", TheDevice().total, 8, 0, 4};
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Device& device = TheDevice();
  Lock lock(device.mutex);
  *total = device.total;
  *free = device.total;
  for (const auto& [start, size] : device.device_memory) *free -= size;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  Device& device = TheDevice();
  Lock lock(device.mutex);
  if (device.captures > 0) return Remember(cudaErrorStreamCaptureUnsupported);
  RunAll(lock);
  return Remember(State());
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  Lock lock(TheDevice().mutex);
  return Allocate(TheDevice().device_memory, pointer, bytes, true);
}

cudaError_t cudaFree(void* pointer) { return Free(TheDevice().device_memory, pointer); }

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  Lock lock(TheDevice().mutex);
  return Allocate(TheDevice().pinned_memory, pointer, bytes, false);
}

cudaError_t cudaFreeHost(void* pointer) { return Free(TheDevice().pinned_memory, pointer); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  Lock lock(TheDevice().mutex);
  if (IsPinnedOrDevice(from)) {
    return Add(stream, {.run = [=] { std::memcpy(to, from, bytes); }});
  }
  const auto* start = static_cast<const std::byte*>(from);
  return Add(stream, {.run = [to, copy = std::vector<std::byte>(start, start + bytes)] {
               if (!copy.empty()) std::memcpy(to, copy.data(), copy.size());
             }});
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  Lock lock(TheDevice().mutex);
  return Add(stream, {.run = [=] { std::memset(to, value, bytes); }});
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  Lock lock(TheDevice().mutex);
  *stream = new CUstream_st;
  TheDevice().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Lock lock(TheDevice().mutex);
  RunAll(stream, lock);
  TheDevice().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Lock lock(TheDevice().mutex);
  if (OrDefault(stream)->capture != nullptr) return Remember(cudaErrorStreamCaptureUnsupported);
  RunAll(OrDefault(stream), lock);
  return Remember(State());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Lock lock(TheDevice().mutex);
  return Add(stream, {.wait = event, .number = event->recorded});
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  Lock lock(TheDevice().mutex);
  if (stream == nullptr || stream->capture != nullptr) return Remember(cudaErrorStreamCaptureUnsupported);
  stream->capture = new CUgraph_st;
  ++TheDevice().captures;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Lock lock(TheDevice().mutex);
  if (stream == nullptr || stream->capture == nullptr) return Remember(cudaErrorInvalidValue);
  *graph = std::exchange(stream->capture, nullptr);
  --TheDevice().captures;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Lock lock(TheDevice().mutex);
  const std::set<CUstream_st*> streams = TheDevice().streams;
  for (CUstream_st* stream : streams) {  // nobody may come to it any more
    const auto uses = [&](const Operation& o) { return o.record == event || o.wait == event; };
    if (TheDevice().streams.contains(stream) && std::any_of(stream->pending.begin(), stream->pending.end(), uses)) {
      RunAll(stream, lock);
    }
  }
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Lock lock(TheDevice().mutex);
  if (OrDefault(stream)->capture != nullptr) return Remember(cudaErrorStreamCaptureUnsupported);
  event->stream = OrDefault(stream);
  return Add(stream, {.record = event, .number = ++event->recorded});
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(TheDevice().mutex);
  if (event->completed < event->recorded) {
    RunUntil(event->stream, lock, [&] { return event->completed >= event->recorded; });
  }
  return Remember(State());
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(TheDevice().mutex);
  if (State() != cudaSuccess) return Remember(State());
  if (event->completed >= event->recorded) return cudaSuccess;
  // A device would get on by itself: one piece of work at a time, so that polling ends.
  const size_t before = event->stream->pending.size();
  RunUntil(event->stream, [&] { return event->stream->pending.size() < before; });
  return event->completed >= event->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;  // no time of a device
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->operations};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  Lock lock(TheDevice().mutex);
  ++TheDevice().graphs;
  for (const Operation& operation : executable->operations) Add(stream, operation);
  return Remember(State());
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

namespace baton::stand_in {

cudaError_t LaunchKernel(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, std::function<void()> body) {
  Lock lock(TheDevice().mutex);
  BlockRunner::Launch launch{
      {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, std::move(body), TheDevice().order_seed};
  return Add(stream, {.run = [launch = std::move(launch)] {
               ++TheDevice().kernels;
               TheDevice().kernel_error = BlockRunner::OfThisThread().Run(launch);
             }});
}

cudaError_t EnqueueUntil(cudaStream_t stream, std::function<bool()> attempt) {
  Lock lock(TheDevice().mutex);
  return Add(stream, {.attempt = std::move(attempt)});
}

cudaError_t Enqueue(cudaStream_t stream, std::function<void()> work) {
  Lock lock(TheDevice().mutex);
  return Add(stream, {.run = std::move(work)});
}

void SetOrder(std::optional<uint64_t> seed) {
  Lock lock(TheDevice().mutex);
  TheDevice().order_seed = seed;
}

std::string TakeKernelError() {
  Lock lock(TheDevice().mutex);
  TheDevice().last_error = cudaSuccess;
  return std::exchange(TheDevice().kernel_error, {});
}

uint64_t KernelsRun() {
  Lock lock(TheDevice().mutex);
  return TheDevice().kernels;
}

uint64_t GraphsLaunched() {
  Lock lock(TheDevice().mutex);
  return TheDevice().graphs;
}

uint64_t AllocatedBytes() {
  Lock lock(TheDevice().mutex);
  return TheDevice().allocated;
}

void SetDeviceBytes(uint64_t bytes) {
  Lock lock(TheDevice().mutex);
  TheDevice().total = bytes;
}

}  // namespace baton::stand_in
