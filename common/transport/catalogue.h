#pragma once

// The list of transports by name.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/kv_transport.h"

namespace baton {

struct TransportOptions {
  std::string name = "ucx";
  std::string ucx_tls;      // UCX_TLS; empty: posix shared memory between processes of one host, tcp else, RDMA where UCX has it
  std::string ucx_devices;  // UCX_NET_DEVICES; empty: the interface of `bind_host`
  std::string bind_host = "127.0.0.1";  // address that peers reach this process by
};

std::vector<std::string> TransportNames();

// INVALID_ARGUMENT with the known names for an unknown one.
absl::StatusOr<std::unique_ptr<KvTransport>> MakeTransport(const TransportOptions& options);

}  // namespace baton
