#pragma once

// A TCP client that sends what it likes.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "common/transport/framed_socket.h"

namespace baton {

inline void SendRaw(const UniqueFd& fd, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    pollfd entry{fd.get(), POLLOUT, 0};
    ASSERT_EQ(poll(&entry, 1, 60'000), 1);
    const ssize_t count = send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0) return;  // closed already: what these tests are about
    sent += static_cast<size_t>(count);
  }
}
// Reads until the server closes; false when it does not.
inline bool ClosedByPeer(const UniqueFd& fd) {
  while (true) {
    pollfd entry{fd.get(), POLLIN, 0};
    if (poll(&entry, 1, 60'000) != 1) return false;
    char bytes[4096];
    const ssize_t count = recv(fd.get(), bytes, sizeof(bytes), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return true;
  }
}

}  // namespace baton
