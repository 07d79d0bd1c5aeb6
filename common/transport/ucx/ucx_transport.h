#pragma once

// KV over UCX: one-sided puts through shared memory or RDMA where UCX has such a lane to the peer, else messages that
// the target applies after asking its WriteGate. See README.md.

#include <memory>

#include "absl/status/statusor.h"
#include "common/transport/catalogue.h"

namespace baton {

absl::StatusOr<std::unique_ptr<KvTransport>> MakeUcxTransport(const TransportOptions& options);

}  // namespace baton
