#include "common/transport/framed_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "common/base/status.h"

namespace baton {
namespace {

constexpr size_t kReadPiece = 64 << 10;
constexpr size_t kMaxReadPerCall = 1 << 20;  // so that one peer cannot keep the thread from the others
constexpr int kListenBacklog = 256;

std::string ErrnoText(int error_number) { return std::system_category().message(error_number); }

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> Resolve(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const std::string service = std::to_string(port);
  if (const int rc = getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &list); rc != 0) {
    return Unavailable("address %s:%d: %s", host, port, gai_strerror(rc));
  }
  return AddressList(list, freeaddrinfo);
}

// OK once connected; the error number of a failure in `error_number`.
bool FinishConnect(int fd, TimePoint deadline, int* error_number) {
  while (true) {
    pollfd entry{fd, POLLOUT, 0};
    const int ready = poll(&entry, 1, PollTimeout(deadline, std::chrono::steady_clock::now()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      *error_number = ETIMEDOUT;
      return false;
    }
    socklen_t size = sizeof(*error_number);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, error_number, &size);
    return *error_number == 0;
  }
}

}  // namespace

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

WakeFd::WakeFd() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) { BATON_CHECK(fd_.get() >= 0); }

void WakeFd::Wake() const {
  const uint64_t one = 1;
  // A full counter has woken the thread already.
  [[maybe_unused]] const ssize_t written = write(fd_.get(), &one, sizeof(one));
}

void WakeFd::Drain() const {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd_.get(), &count, sizeof(count));
}

SocketState FramedSocket::Fail(const char* operation, int error_number) {
  error_ = std::string(operation) + ": " + ErrnoText(error_number);
  return error_number == ECONNRESET || error_number == EPIPE ? SocketState::kReset : SocketState::kFailed;
}

SocketState FramedSocket::Write() {
  while (unsent() > 0) {
    const ssize_t count = send(fd(), unsent_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (count >= 0) {
      sent_ += static_cast<size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return Fail("send", errno);
    }
  }
  // The sent front goes in large steps, so that a slow reader does not cost a move of the rest for every piece.
  if (unsent() == 0 || sent_ > kMaxReadPerCall) {
    unsent_.erase(0, sent_);
    sent_ = 0;
  }
  return SocketState::kOpen;
}

SocketState FramedSocket::Read(std::vector<Frame>* frames) {
  std::array<char, kReadPiece> piece;
  SocketState state = SocketState::kOpen;
  for (size_t total = 0; total < kMaxReadPerCall && state == SocketState::kOpen;) {
    const ssize_t count = recv(fd(), piece.data(), piece.size(), 0);
    if (count > 0) {
      parser_.Append(piece.data(), static_cast<size_t>(count));
      total += static_cast<size_t>(count);
    } else if (count == 0) {
      error_ = "end of file";
      state = SocketState::kEndOfFile;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      state = Fail("recv", errno);
    }
    while (count > 0) {
      absl::StatusOr<std::optional<Frame>> frame = parser_.Next();
      if (!frame.ok()) {
        error_ = StatusMessage(frame.status());
        return SocketState::kProtocolError;
      }
      if (!frame->has_value()) break;
      frames->push_back(**std::move(frame));
    }
  }
  return state;
}

void SetControlSocketOptions(int fd, Duration lost_after) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  const auto timeout_ms =
      static_cast<unsigned int>(std::chrono::duration_cast<std::chrono::milliseconds>(lost_after).count());
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

absl::StatusOr<std::pair<UniqueFd, uint16_t>> ListenOn(const std::string& host, uint16_t port) {
  BATON_ASSIGN_OR_RETURN(const AddressList list, Resolve(host, port, AI_PASSIVE));
  int error_number = 0;
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    UniqueFd fd(socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int one = 1;
    if (fd.get() >= 0) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd.get() < 0 || bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0 ||
        listen(fd.get(), kListenBacklog) != 0) {
      error_number = errno;
      continue;
    }
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    const in_port_t network_port = bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                                               : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
    return std::make_pair(std::move(fd), ntohs(network_port));
  }
  return Unavailable("listen on %s:%d: %s", host, port, ErrnoText(error_number));
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& host, uint16_t port, TimePoint deadline) {
  BATON_ASSIGN_OR_RETURN(const AddressList list, Resolve(host, port, 0));
  int error_number = 0;
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    UniqueFd fd(socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd.get() < 0) {
      error_number = errno;
      continue;
    }
    if (connect(fd.get(), address->ai_addr, address->ai_addrlen) == 0) return fd;
    error_number = errno;
    if (error_number == EINPROGRESS && FinishConnect(fd.get(), deadline, &error_number)) return fd;
  }
  return Unavailable("connect to %s:%d: %s", host, port, ErrnoText(error_number));
}

int PollTimeout(TimePoint deadline, TimePoint now) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

}  // namespace baton
