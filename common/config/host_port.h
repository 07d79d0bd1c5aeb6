#pragma once

// Addresses as flags name them.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace baton {

struct HostPort {
  std::string host;  // "::1" of "[::1]:80"
  uint16_t port;
};

// INVALID_ARGUMENT that says what is wrong: no host, or a port that is none from 1 to 65535. Looks nothing up.
absl::StatusOr<HostPort> ParseHostPort(const std::string& text);

}  // namespace baton
