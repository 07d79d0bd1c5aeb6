#pragma once

// What must hold before a sequence may run on KV that somebody else wrote (I2).

#include "absl/status/status.h"
#include "common/handoff/lease_table.h"
#include "common/kv/pool_memory.h"
#include "common/transport/control_messages.h"

namespace baton {

// Compares the commit with the lease and with the bytes in `memory`. FAILED_PRECONDITION when counts or first tokens do
// not fit the lease, DATA_LOSS when a block's checksum differs; both with the numbers. An error of `memory` as it is.
absl::Status VerifyCommit(const Lease& lease, const CommitMessage& commit, PoolMemory& memory);

}  // namespace baton
