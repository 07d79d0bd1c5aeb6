#pragma once

// KV over NCCL, device memory to device memory: a communicator for each pair of writer and target. Blocks are gathered
// into a staging buffer, sent, received and scattered; a TCP connection beside it says what comes and where it belongs,
// so the target asks its WriteGate before a byte reaches the pool. See README.md.

#include <memory>

#include "absl/status/statusor.h"
#include "common/transport/catalogue.h"

namespace baton {

// FAILED_PRECONDITION without a CUDA device.
absl::StatusOr<std::unique_ptr<KvTransport>> MakeNcclTransport(const TransportOptions& options);

}  // namespace baton
