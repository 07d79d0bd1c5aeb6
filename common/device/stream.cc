#include "common/device/stream.h"

#include <cuda_runtime.h>

#include "common/base/status.h"
#include "common/device/device.h"

namespace baton::device {

void Event::Destroy::operator()(CUevent_st* event) const { cudaEventDestroy(event); }
void Stream::Destroy::operator()(CUstream_st* stream) const { cudaStreamDestroy(stream); }

absl::StatusOr<Event> Event::Create() {
  cudaEvent_t created;
  BATON_RETURN_IF_ERROR(ToStatus(cudaEventCreateWithFlags(&created, cudaEventDisableTiming), "creating an event"));
  Event event;
  event.event_.reset(created);
  return event;
}

absl::StatusOr<bool> Event::Reached() const {
  const cudaError_t error = cudaEventQuery(event_.get());
  if (error == cudaErrorNotReady) return false;
  BATON_RETURN_IF_ERROR(ToStatus(error, "asking for an event"));
  return true;
}

absl::Status Event::Wait() const { return ToStatus(cudaEventSynchronize(event_.get()), "waiting for an event"); }

absl::StatusOr<Stream> Stream::Create() {
  cudaStream_t created;
  BATON_RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "creating a stream"));
  Stream stream;
  stream.stream_.reset(created);
  return stream;
}

absl::Status Stream::Copy(void* to, const void* from, uint64_t bytes) const {
  return ToStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, get()), "copying memory");
}

absl::Status Stream::CopyRows(void* to, uint64_t to_stride, const void* from, uint64_t from_stride, uint64_t row_bytes,
                              uint64_t rows) const {
  return ToStatus(cudaMemcpy2DAsync(to, to_stride, from, from_stride, row_bytes, rows, cudaMemcpyDefault, get()),
                  "copying memory");
}

absl::Status Stream::Fill(void* to, uint8_t value, uint64_t bytes) const {
  return ToStatus(cudaMemsetAsync(to, value, bytes, get()), "filling memory");
}

absl::Status Stream::Record(Event& event) const {
  return ToStatus(cudaEventRecord(event.event_.get(), get()), "recording an event");
}

absl::Status Stream::WaitFor(const Event& event) const {
  return ToStatus(cudaStreamWaitEvent(get(), event.event_.get(), 0), "making a stream wait for an event");
}

absl::Status Stream::Synchronize() const { return ToStatus(cudaStreamSynchronize(get()), "waiting for a stream"); }

}  // namespace baton::device
