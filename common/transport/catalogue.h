#pragma once

// The list of transports by name.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/kv_transport.h"

namespace baton {

class LocalNetwork;

struct TransportOptions {
  std::string name = "ucx";
  std::string
      ucx_tls;  // UCX_TLS; empty: posix shared memory between processes of one host, tcp else, RDMA where UCX has it
  std::string ucx_devices;              // UCX_NET_DEVICES; empty: the interface of `bind_host`
  std::string bind_host = "127.0.0.1";  // address that peers reach this process by
  int device = 0;                       // nccl: the CUDA device that holds the pool
  // Puts travel as messages that the target's WriteGate can refuse, also where shared memory or RDMA would do without.
  bool message_puts = false;
  bool device_pool = false;  // the pool will be a device's (UsePool)
  std::shared_ptr<LocalNetwork>
      local_network;  // "local": transports that share one reach each other; null: only itself
};

// Also those that this build is without.
std::vector<std::string> TransportNames();

// INVALID_ARGUMENT with the known names for an unknown one, FAILED_PRECONDITION for one that this build is without.
absl::StatusOr<std::unique_ptr<KvTransport>> MakeTransport(const TransportOptions& options);

// What the transports of this process would leave behind on its machine if it ended now without their destructors. Any
// thread, also while one of them works.
void RemoveTransportLeftovers();

// Bytes a second of puts to the transport's own pool through a session to itself. Writes zeros: call it after
// AllocatePool and before the pool holds anything.
absl::StatusOr<double> ProbeBandwidth(KvTransport& transport, uint64_t pool_bytes);

}  // namespace baton
