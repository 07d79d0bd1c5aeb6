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
  int device = 0;
  uint64_t recorded = 0;   // calls of cudaEventRecord
  uint64_t completed = 0;  // of which the stream has reached so many
  CUstream_st* stream = nullptr;
};
struct CUgraph_st {
  std::vector<Operation> operations;
  int device = 0;
};
struct CUgraphExec_st {
  std::vector<Operation> operations;
  int device = 0;
};
struct CUstream_st {
  int device = 0;
  std::deque<Operation> pending;
  CUgraph_st* capture = nullptr;
};

namespace {

constexpr int kMaxDevices = 8;

struct Device {
  CUstream_st default_stream;
  size_t total = size_t{1} << 30;
  size_t taken = 0;                      // by graphs and kernels
  std::set<const void*> loaded;          // kernels that have run
  std::optional<uint64_t> kernels_left;  // before one that fails
  std::string error;
};

struct Allocation {
  size_t bytes = 0;
  int device = 0;
};
using Allocations = std::map<const std::byte*, Allocation>;

// What a device's memory has beside allocations, so that who forgets it runs out: graphs, by their nodes, and kernels,
// from when they are first used.
constexpr size_t kNodeBytes = size_t{4} << 10;
constexpr size_t kKernelBytes = size_t{64} << 10;

constexpr size_t kSharedBytes = size_t{48} << 10;
constexpr int kMostSharedBytes = 227 << 10;

// Every call takes the lock, and work runs under it.
struct Machine {
  std::recursive_mutex mutex;
  Device devices[kMaxDevices];
  int count = 1;
  std::set<CUstream_st*> streams;
  Allocations device_memory, pinned_memory;
  size_t allocated = 0;
  std::optional<uint64_t> order_seed;
  std::map<const void*, size_t> shared_bytes;  // what cudaFuncSetAttribute allowed a kernel
  uint64_t kernels = 0, graphs = 0;
  cudaError_t last_error = cudaSuccess;
  int captures = 0;

  Machine() {
    for (int i = 0; i < kMaxDevices; ++i) {
      devices[i].default_stream.device = i;
      streams.insert(&devices[i].default_stream);
    }
    if (const char* named = std::getenv("BATON_STAND_IN_DEVICES")) count = std::clamp(std::atoi(named), 0, kMaxDevices);
  }
};

Machine& TheMachine() {
  static Machine machine;
  return machine;
}

thread_local int current_device = 0;

Device& CurrentDevice() { return TheMachine().devices[current_device]; }

cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess) TheMachine().last_error = error;
  return error;
}

// After a failed kernel nothing runs on its device any more.
cudaError_t StateOf(int device) {
  return TheMachine().devices[device].error.empty() ? cudaSuccess : cudaErrorLaunchFailure;
}

CUstream_st* OrDefault(cudaStream_t stream) { return stream == nullptr ? &CurrentDevice().default_stream : stream; }

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
      if (StateOf(stream->device) == cudaSuccess && !operation.attempt()) return false;
    } else if (operation.record != nullptr) {
      operation.record->completed = std::max(operation.record->completed, operation.number);
    } else if (StateOf(stream->device) == cudaSuccess) {
      operation.run();
    }
    stream->pending.pop_front();
  }
  return true;
}

using Lock = std::unique_lock<std::recursive_mutex>;

// While `stream` is held up the other devices get on, which it may be waiting for, and other threads may call CUDA.
void RunUntil(CUstream_st* stream, Lock& lock, const std::function<bool()>& reached) {
  while (!RunUntil(stream, reached)) {
    for (CUstream_st* other : TheMachine().streams) {
      if (other->device != stream->device) RunUntil(other, [] { return false; });
    }
    if (RunUntil(stream, reached)) return;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
}

void RunAll(CUstream_st* stream, Lock& lock) {
  RunUntil(stream, lock, [] { return false; });
}

void RunAll(Lock& lock) {
  const std::set<CUstream_st*> streams = TheMachine().streams;
  for (CUstream_st* stream : streams) {
    if (TheMachine().streams.contains(stream)) RunAll(stream, lock);
  }
}

cudaError_t Add(cudaStream_t to, Operation operation) {
  CUstream_st* stream = OrDefault(to);
  if (stream->capture != nullptr) {
    stream->capture->operations.push_back(std::move(operation));
  } else {
    stream->pending.push_back(std::move(operation));
  }
  return Remember(StateOf(stream->device));
}

// The allocation that holds the byte, or null.
const Allocation* Find(const Allocations& memory, const void* pointer) {
  auto after = memory.upper_bound(static_cast<const std::byte*>(pointer));
  if (after == memory.begin()) return nullptr;
  --after;
  const bool inside = static_cast<const std::byte*>(pointer) < after->first + std::max<size_t>(after->second.bytes, 1);
  return inside ? &after->second : nullptr;
}

bool IsPinnedOrDevice(const void* pointer) {
  return Find(TheMachine().device_memory, pointer) != nullptr || Find(TheMachine().pinned_memory, pointer) != nullptr;
}

size_t FreeBytes(int device) {
  const Device& of = TheMachine().devices[device];
  size_t taken = of.taken;
  for (const auto& [start, allocation] : TheMachine().device_memory) {
    if (allocation.device == device) taken += allocation.bytes;
  }
  return of.total - std::min(of.total, taken);
}

// Memory that is no allocation.
cudaError_t Take(int device, size_t bytes) {
  if (bytes > FreeBytes(device)) return Remember(cudaErrorMemoryAllocation);
  TheMachine().devices[device].taken += bytes;
  return cudaSuccess;
}

cudaError_t Allocate(Allocations& memory, void** pointer, size_t bytes, bool of_device) {
  Machine& machine = TheMachine();
  if (machine.captures > 0) return Remember(cudaErrorStreamCaptureUnsupported);
  if (of_device && bytes > FreeBytes(current_device)) return Remember(cudaErrorMemoryAllocation);
  if (posix_memalign(pointer, 256, bytes) != 0) return Remember(cudaErrorMemoryAllocation);
  std::memset(*pointer, 0xff, bytes);
  memory[static_cast<std::byte*>(*pointer)] = {bytes, current_device};
  machine.allocated += bytes;
  return cudaSuccess;
}

cudaError_t Free(Allocations& memory, void* pointer) {
  Machine& machine = TheMachine();
  Lock lock(machine.mutex);
  if (pointer == nullptr) return cudaSuccess;
  const auto found = memory.find(static_cast<std::byte*>(pointer));
  if (found == memory.end()) return Remember(cudaErrorInvalidValue);
  RunAll(lock);  // as cudaFree waits for the device
  machine.allocated -= found->second.bytes;
  memory.erase(found);
  std::free(pointer);
  return cudaSuccess;
}

// What a stream's device does not reach: pointers into another device's memory. A real device
// would fail when it reads there.
cudaError_t CheckPointers(cudaStream_t stream, const baton::stand_in::Words& words) {
  if (TheMachine().count == 1) return cudaSuccess;
  for (const void* word : words) {
    const Allocation* allocation = Find(TheMachine().device_memory, word);
    if (allocation != nullptr && allocation->device != OrDefault(stream)->device) {
      return Remember(cudaErrorPeerAccessNotEnabled);
    }
  }
  return cudaSuccess;
}

// A kernel goes to the calling thread's device.
cudaError_t CheckLaunch(cudaStream_t stream, const baton::stand_in::Words& words) {
  if (OrDefault(stream)->device != current_device) return Remember(cudaErrorInvalidResourceHandle);
  return CheckPointers(stream, words);
}

}  // namespace

cudaError_t cudaGetLastError() {
  Lock lock(TheMachine().mutex);
  return std::exchange(TheMachine().last_error, StateOf(current_device));
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 12040;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  Lock lock(TheMachine().mutex);
  *count = TheMachine().count;
  return *count > 0 ? cudaSuccess : Remember(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  Lock lock(TheMachine().mutex);
  if (device < 0 || device >= TheMachine().count) return Remember(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  Lock lock(TheMachine().mutex);
  if (device < 0 || device >= TheMachine().count) return Remember(cudaErrorInvalidDevice);
  *properties = {"host stand-in", TheMachine().devices[device].total, 8, 0, 4};
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Lock lock(TheMachine().mutex);
  *total = CurrentDevice().total;
  *free = FreeBytes(current_device);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  Lock lock(TheMachine().mutex);
  if (TheMachine().captures > 0) return Remember(cudaErrorStreamCaptureUnsupported);
  RunAll(lock);
  return Remember(StateOf(current_device));
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  Lock lock(TheMachine().mutex);
  return Allocate(TheMachine().device_memory, pointer, bytes, true);
}

cudaError_t cudaFree(void* pointer) { return Free(TheMachine().device_memory, pointer); }

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  Lock lock(TheMachine().mutex);
  return Allocate(TheMachine().pinned_memory, pointer, bytes, false);
}

cudaError_t cudaFreeHost(void* pointer) { return Free(TheMachine().pinned_memory, pointer); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  Lock lock(TheMachine().mutex);
  if (IsPinnedOrDevice(from)) {
    return Add(stream, {.run = [=] { std::memcpy(to, from, bytes); }});
  }
  const auto* start = static_cast<const std::byte*>(from);
  return Add(stream, {.run = [to, copy = std::vector<std::byte>(start, start + bytes)] {
               if (!copy.empty()) std::memcpy(to, copy.data(), copy.size());
             }});
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  Lock lock(TheMachine().mutex);
  if (!IsPinnedOrDevice(from) || width > to_pitch || width > from_pitch) return Remember(cudaErrorInvalidValue);
  return Add(stream, {.run = [=] {
               for (size_t row = 0; row < height; ++row) {
                 std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                             static_cast<const std::byte*>(from) + row * from_pitch, width);
               }
             }});
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  Lock lock(TheMachine().mutex);
  return Add(stream, {.run = [=] { std::memset(to, value, bytes); }});
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  Lock lock(TheMachine().mutex);
  *stream = new CUstream_st;
  (*stream)->device = current_device;
  TheMachine().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Lock lock(TheMachine().mutex);
  RunAll(stream, lock);
  TheMachine().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Lock lock(TheMachine().mutex);
  if (OrDefault(stream)->capture != nullptr) return Remember(cudaErrorStreamCaptureUnsupported);
  RunAll(OrDefault(stream), lock);
  return Remember(StateOf(OrDefault(stream)->device));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Lock lock(TheMachine().mutex);
  return Add(stream, {.wait = event, .number = event->recorded});
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  Lock lock(TheMachine().mutex);
  if (stream == nullptr || stream->capture != nullptr) return Remember(cudaErrorStreamCaptureUnsupported);
  stream->capture = new CUgraph_st{.device = stream->device};
  ++TheMachine().captures;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Lock lock(TheMachine().mutex);
  if (stream == nullptr || stream->capture == nullptr) return Remember(cudaErrorInvalidValue);
  *graph = std::exchange(stream->capture, nullptr);
  --TheMachine().captures;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  (*event)->device = current_device;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Lock lock(TheMachine().mutex);
  const std::set<CUstream_st*> streams = TheMachine().streams;
  for (CUstream_st* stream : streams) {  // nobody may come to it any more
    const auto uses = [&](const Operation& o) { return o.record == event || o.wait == event; };
    if (TheMachine().streams.contains(stream) && std::any_of(stream->pending.begin(), stream->pending.end(), uses)) {
      RunAll(stream, lock);
    }
  }
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Lock lock(TheMachine().mutex);
  if (OrDefault(stream)->capture != nullptr) return Remember(cudaErrorStreamCaptureUnsupported);
  if (event->device != OrDefault(stream)->device) return Remember(cudaErrorInvalidResourceHandle);
  event->stream = OrDefault(stream);
  return Add(stream, {.record = event, .number = ++event->recorded});
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(TheMachine().mutex);
  if (event->completed < event->recorded) {
    RunUntil(event->stream, lock, [&] { return event->completed >= event->recorded; });
  }
  return Remember(StateOf(event->device));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(TheMachine().mutex);
  if (StateOf(event->device) != cudaSuccess) return Remember(StateOf(event->device));
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

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  Lock lock(TheMachine().mutex);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > kMostSharedBytes) {
    return Remember(cudaErrorInvalidValue);
  }
  TheMachine().shared_bytes[kernel] = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  Lock lock(TheMachine().mutex);
  if (const cudaError_t error = Take(graph->device, kNodeBytes * graph->operations.size()); error != cudaSuccess) {
    return error;
  }
  *executable = new CUgraphExec_st{graph->operations, graph->device};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  Lock lock(TheMachine().mutex);
  ++TheMachine().graphs;
  for (const Operation& operation : executable->operations) Add(stream, operation);
  return Remember(StateOf(OrDefault(stream)->device));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  Lock lock(TheMachine().mutex);
  TheMachine().devices[executable->device].taken -= kNodeBytes * executable->operations.size();
  delete executable;
  return cudaSuccess;
}

namespace baton::stand_in {

int DeviceOf(cudaStream_t stream) {
  Lock lock(TheMachine().mutex);
  return OrDefault(stream)->device;
}

cudaError_t LaunchKernel(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                         std::function<void()> body, const Words& words) {
  Lock lock(TheMachine().mutex);
  const size_t threads = size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || size_t{grid.x} * grid.y * grid.z == 0 || grid.x > 0x7fffffff ||
      grid.y > 65535 || grid.z > 65535) {
    return Remember(cudaErrorInvalidConfiguration);
  }
  const auto allowed = TheMachine().shared_bytes.find(kernel);
  if (shared_bytes >
      (allowed == TheMachine().shared_bytes.end() ? kSharedBytes : std::max(kSharedBytes, allowed->second))) {
    return Remember(cudaErrorInvalidValue);
  }
  if (const cudaError_t error = CheckLaunch(stream, words); error != cudaSuccess) return error;
  if (!CurrentDevice().loaded.contains(kernel)) {
    if (const cudaError_t error = Take(current_device, kKernelBytes); error != cudaSuccess) return error;
    CurrentDevice().loaded.insert(kernel);
  }
  BlockRunner::Launch launch{
      {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, std::move(body), TheMachine().order_seed};
  return Add(stream, {.run = [launch = std::move(launch), &device = TheMachine().devices[OrDefault(stream)->device]] {
               ++TheMachine().kernels;
               if (device.kernels_left.has_value() && (*device.kernels_left)-- == 0) {
                 device.kernels_left.reset();
                 device.error = "a test made it fail";
               } else {
                 device.error = BlockRunner::OfTheMachine().Run(launch);
               }
             }});
}

cudaError_t EnqueueUntil(cudaStream_t stream, std::function<bool()> attempt, const Words& words) {
  Lock lock(TheMachine().mutex);
  if (const cudaError_t error = CheckPointers(stream, words); error != cudaSuccess) return error;
  return Add(stream, {.attempt = std::move(attempt)});
}

cudaError_t Enqueue(cudaStream_t stream, std::function<void()> work, const Words& words) {
  Lock lock(TheMachine().mutex);
  if (const cudaError_t error = CheckLaunch(stream, words); error != cudaSuccess) return error;
  return Add(stream, {.run = std::move(work)});
}

void SetOrder(std::optional<uint64_t> seed) {
  Lock lock(TheMachine().mutex);
  TheMachine().order_seed = seed;
}

std::string TakeKernelError() {
  Lock lock(TheMachine().mutex);
  TheMachine().last_error = cudaSuccess;
  std::string first;
  for (Device& device : TheMachine().devices) {
    const std::string error = std::exchange(device.error, {});
    if (first.empty()) first = error;
    device.kernels_left.reset();
  }
  return first;
}

void FailKernel(int device, uint64_t kernels) {
  Lock lock(TheMachine().mutex);
  TheMachine().devices[device].kernels_left = kernels;
}

void SetDeviceCount(int count) {
  Lock lock(TheMachine().mutex);
  TheMachine().count = std::clamp(count, 0, kMaxDevices);
}

uint64_t KernelsRun() {
  Lock lock(TheMachine().mutex);
  return TheMachine().kernels;
}

uint64_t GraphsLaunched() {
  Lock lock(TheMachine().mutex);
  return TheMachine().graphs;
}

uint64_t AllocatedBytes() {
  Lock lock(TheMachine().mutex);
  return TheMachine().allocated;
}

void SetDeviceBytes(uint64_t bytes) {
  Lock lock(TheMachine().mutex);
  for (Device& device : TheMachine().devices) device.total = bytes;
}

}  // namespace baton::stand_in
