#pragma once

// A non-blocking TCP socket that carries control frames, and what it needs from the system. Not thread-safe: one I/O
// thread owns it.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/transport/control_codec.h"

namespace baton {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// An eventfd that gets a thread out of poll. Wake is thread-safe and async-signal-safe.
class WakeFd {
 public:
  WakeFd();
  int get() const { return fd_.get(); }
  void Wake() const;
  void Drain() const;

 private:
  UniqueFd fd_;
};

// How a connection stands, or how it ended.
enum class SocketState : uint8_t {
  kOpen,
  kEndOfFile,      // the other side closed
  kReset,          // the other side's kernel answered that nobody is there
  kFailed,         // no answer: timed out, unreachable
  kProtocolError,  // frames that cannot be
};

class FramedSocket {
 public:
  // `fd` is connected and non-blocking.
  explicit FramedSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  FrameParser& parser() { return parser_; }
  void Queue(std::string_view frame) { unsent_.append(frame); }
  size_t unsent() const { return unsent_.size() - sent_; }
  // Sends what the kernel takes now.
  SocketState Write();
  // Appends the frames that have arrived, up to about 1 MiB a call. Frames read before an end are delivered too.
  SocketState Read(std::vector<Frame>* frames);
  // Why the state is not kOpen, for logs.
  const std::string& error() const { return error_; }

 private:
  SocketState Fail(const char* operation, int error_number);

  UniqueFd fd_;
  FrameParser parser_;
  std::string unsent_;
  size_t sent_ = 0;
  std::string error_;
};

// Sets TCP_NODELAY, and TCP_USER_TIMEOUT to `lost_after`.
void SetControlSocketOptions(int fd, Duration lost_after);

// A listening non-blocking socket on host:port and the port it got.
absl::StatusOr<std::pair<UniqueFd, uint16_t>> ListenOn(const std::string& host, uint16_t port);

// A connected non-blocking socket; UNAVAILABLE when nobody answers until `deadline`.
absl::StatusOr<UniqueFd> ConnectTo(const std::string& host, uint16_t port, TimePoint deadline);

// Milliseconds for poll, rounded up; 0 when `deadline` is past.
int PollTimeout(TimePoint deadline, TimePoint now);

}  // namespace baton
