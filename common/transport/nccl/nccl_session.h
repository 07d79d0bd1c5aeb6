#pragma once

// A writer's session: one thread that owns its connection, communicator and staging buffers.

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/transport/kv_transport.h"
#include "common/transport/nccl/nccl_wire.h"

namespace baton {

// UNAVAILABLE when the target is not there by `deadline`.
absl::StatusOr<std::unique_ptr<KvSession>> OpenNcclSession(NcclDescriptor target, const PutSource& source, int device,
                                                           TimePoint deadline);

}  // namespace baton
