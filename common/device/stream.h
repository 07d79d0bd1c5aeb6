#pragma once

// Streams and events. What is enqueued in a stream runs in order, beside the host and beside other streams.

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct CUstream_st;
struct CUevent_st;

namespace baton::device {

// A place in a stream that others can wait for. Movable; outlives nothing that waits for it.
class Event {
 public:
  static absl::StatusOr<Event> Create();

  // Whether the place of the last Record was reached; true before any.
  absl::StatusOr<bool> Reached() const;
  // Blocks until then.
  absl::Status Wait() const;

 private:
  friend class Stream;
  struct Destroy {
    void operator()(CUevent_st* event) const;
  };
  std::unique_ptr<CUevent_st, Destroy> event_;
};

// One thread at a time enqueues. Destroying it lets what is enqueued run to its end.
class Stream {
 public:
  static absl::StatusOr<Stream> Create();

  // What kernels take.
  CUstream_st* get() const { return stream_.get(); }

  // Any two of device, pinned and other host memory; the latter is read at once when it is the source, and makes the
  // call wait when it is the target.
  absl::Status Copy(void* to, const void* from, uint64_t bytes) const;
  // `rows` rows of `row_bytes` each, whose starts are so many bytes apart; device or pinned memory.
  absl::Status CopyRows(void* to, uint64_t to_stride, const void* from, uint64_t from_stride, uint64_t row_bytes,
                        uint64_t rows) const;
  absl::Status Fill(void* to, uint8_t value, uint64_t bytes) const;

  absl::Status Record(Event& event) const;
  // What is enqueued from now on runs after the event's last Record.
  absl::Status WaitFor(const Event& event) const;
  // Blocks until everything enqueued has run; an error of any of it comes out here.
  absl::Status Synchronize() const;

 private:
  struct Destroy {
    void operator()(CUstream_st* stream) const;
  };
  std::unique_ptr<CUstream_st, Destroy> stream_;
};

}  // namespace baton::device
