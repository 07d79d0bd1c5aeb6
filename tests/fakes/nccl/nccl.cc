#include <nccl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/base/hash.h"
#include "tests/fakes/nccl/communicator.h"

namespace {

using baton::stand_in::Link;

// Listeners of the ids that this process made, until their rank 0 takes them.
struct Ids {
  std::mutex mutex;
  std::map<std::string, int> listeners;
};
Ids& TheIds() {
  static Ids ids;
  return ids;
}

// An abstract name: nothing is left in the file system, and a dead process's names are free again.
std::pair<sockaddr_un, socklen_t> AddressOf(const ncclUniqueId& id) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = strnlen(id.internal, 60);
  std::memcpy(address.sun_path + 1, id.internal, length);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)};
}

// One message: its size, then its bytes.
struct Message {
  uint64_t bytes;
  std::byte* data;
  uint64_t done = 0;    // of 8 + bytes
  uint64_t header = 0;  // the size as it travels
};

// Moves what can be moved; true when nothing is left to do, or nothing can be done any more.
template <typename Move>
bool Continue(Link& link, Message& message, Move move) {
  std::lock_guard lock(link.mutex);
  while (!link.over() && message.done < 8 + message.bytes) {
    std::byte* const at = message.done < 8 ? reinterpret_cast<std::byte*>(&message.header) + message.done
                                           : message.data + (message.done - 8);
    const uint64_t left = message.done < 8 ? 8 - message.done : 8 + message.bytes - message.done;
    const ssize_t moved = move(link.fd, at, left);
    if (moved > 0) {
      message.done += static_cast<uint64_t>(moved);
      if (message.done == 8 && message.header != message.bytes) link.Fail(ncclInvalidUsage);
    } else if (moved < 0 && errno == EAGAIN) {
      return false;
    } else if (moved == 0 || errno != EINTR) {
      link.Fail(ncclRemoteError);
    }
  }
  return true;
}

ncclResult_t Begin(ncclComm* communicator, size_t count, int peer) {
  if (communicator->link == nullptr) return ncclInvalidArgument;
  std::lock_guard lock(communicator->link->mutex);
  if (communicator->link->state != ncclSuccess) return ncclInvalidUsage;  // the last call is not over, or failed
  if (count == 0 || peer != 1 - communicator->rank) return ncclInvalidArgument;
  communicator->link->state = ncclInProgress;
  return ncclInProgress;
}

}  // namespace

namespace baton::stand_in {

Link::~Link() {
  if (fd >= 0) close(fd);
  if (listener >= 0) close(listener);
}

}  // namespace baton::stand_in

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  const std::string name = "baton-nccl-" + std::to_string(baton::RandomU64());
  std::memcpy(id->internal, name.data(), name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const auto [address, length] = AddressOf(*id);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0 || listen(fd, 1) != 0) {
    if (fd >= 0) close(fd);
    return ncclSystemError;
  }
  std::lock_guard lock(TheIds().mutex);
  TheIds().listeners[name] = fd;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks != 2 || rank < 0 || rank > 1 || config->blocking != 0) return ncclInvalidArgument;
  auto created = std::make_unique<ncclComm>(ncclComm{std::make_shared<Link>(), nullptr, rank});
  Link& link = *created->link;
  if (rank == 0) {
    std::lock_guard lock(TheIds().mutex);
    const auto found = TheIds().listeners.find(std::string(id.internal, strnlen(id.internal, sizeof(id.internal))));
    if (found == TheIds().listeners.end()) return ncclInvalidArgument;
    link.listener = found->second;
    TheIds().listeners.erase(found);
  } else {
    link.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const auto [address, length] = AddressOf(id);
    if (connect(link.fd, reinterpret_cast<const sockaddr*>(&address), length) != 0) return ncclRemoteError;
  }
  *communicator = created.release();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  if (communicator->clique != nullptr) {
    std::lock_guard lock(communicator->clique->mutex);
    *state = communicator->clique->state;
    return ncclSuccess;
  }
  Link& link = *communicator->link;
  std::lock_guard lock(link.mutex);
  *state = link.state;  // so a call is in progress for one question at least
  if (link.state != ncclInProgress) return ncclSuccess;
  if (link.fd < 0) {
    link.fd = accept4(link.listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (link.fd < 0) return ncclSuccess;
  }
  link.state = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (communicator->clique != nullptr) {
    std::lock_guard lock(communicator->clique->mutex);
    communicator->clique->aborted = true;
  } else {
    std::lock_guard lock(communicator->link->mutex);
    communicator->link->aborted = true;
    if (communicator->link->fd >= 0) shutdown(communicator->link->fd, SHUT_RDWR);
  }
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  if (communicator->clique != nullptr) return baton::stand_in::SendToSelf(from, count, peer, communicator);
  const ncclResult_t begun = Begin(communicator, count, peer);
  if (begun != ncclInProgress) return begun;
  Message message{count, static_cast<std::byte*>(const_cast<void*>(from)), 0, count};
  const auto attempt = [link = communicator->link, message]() mutable {
    return Continue(*link, message,
                    [](int fd, std::byte* at, uint64_t left) { return send(fd, at, left, MSG_NOSIGNAL); });
  };
  const cudaError_t error = baton::stand_in::EnqueueUntil(stream, attempt, {from});
  return error == cudaSuccess ? ncclInProgress : ncclSystemError;
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t, int peer, ncclComm_t communicator, cudaStream_t stream) {
  if (communicator->clique != nullptr) return baton::stand_in::ReceiveFromSelf(to, count, peer, communicator, stream);
  const ncclResult_t begun = Begin(communicator, count, peer);
  if (begun != ncclInProgress) return begun;
  Message message{count, static_cast<std::byte*>(to)};
  const auto attempt = [link = communicator->link, message]() mutable {
    return Continue(*link, message, [](int fd, std::byte* at, uint64_t left) { return recv(fd, at, left, 0); });
  };
  const cudaError_t error = baton::stand_in::EnqueueUntil(stream, attempt, {to});
  return error == cudaSuccess ? ncclInProgress : ncclSystemError;
}
