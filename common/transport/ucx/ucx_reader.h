#pragma once

// Where a session's pieces without a pointer come from: gathered from the source pool into a few staging buffers, one
// being filled while another is sent. On the engine's thread.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/transport/kv_transport.h"

namespace baton {

class UcxReader {
 public:
  // `direct`: UCX reads memory of devices itself.
  UcxReader(const PutSource& source, bool direct) : source_(source), direct_(direct) {}

  // Starts to read the run, at most `most` bytes, the same in every call, into a buffer; none when all are in use.
  // Where UCX may read the device itself for a `put`, it only waits for the steps that wrote there.
  absl::StatusOr<std::optional<size_t>> Start(const PutRun& run, uint64_t most, bool put);
  // The bytes; null while they are being read.
  absl::StatusOr<const std::byte*> Bytes(size_t buffer);
  void Release(size_t buffer) { buffers_[buffer].in_use = false; }
  // A read has just been started: to look again is cheaper than to sleep.
  bool worth_polling() const { return waiting_ && std::chrono::steady_clock::now() < poll_until_; }
  // Waits for reads under way; nothing reads the source afterwards.
  void Close() { staging_.reset(); }

 private:
  struct Buffer {
    bool in_use = false;
    const std::byte* direct = nullptr;
  };

  const PutSource source_;
  const bool direct_;
  std::unique_ptr<PoolStaging> staging_;
  std::vector<Buffer> buffers_;
  bool waiting_ = false;
  TimePoint poll_until_;
};

}  // namespace baton
