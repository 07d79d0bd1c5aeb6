#pragma once

// Staging buffers of one end of a session and the streams that fill and empty them.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/kv/pool_memory.h"
#include "common/transport/nccl/nccl_wire.h"

namespace baton {

struct NcclStaging {
  // Beside `pool`; null: for bytes of the host alone. FAILED_PRECONDITION for a pool in host memory.
  static absl::StatusOr<NcclStaging> Create(PoolMemory* pool) {
    NcclStaging staging;
    if (pool != nullptr) {
      BATON_ASSIGN_OR_RETURN(staging.pool, pool->MakeStaging(StagingPlace::kFirstDevice, kNcclPieces, kNcclPieceBytes));
    } else {
      BATON_ASSIGN_OR_RETURN(staging.memory,
                             device::Memory::Allocate(device::MemoryKind::kDevice, kNcclPieceBytes * kNcclPieces));
    }
    BATON_ASSIGN_OR_RETURN(staging.wire, device::Stream::Create());
    BATON_ASSIGN_OR_RETURN(staging.copies, device::Stream::Create());
    for (size_t i = 0; i < kNcclPieces; ++i) {
      BATON_ASSIGN_OR_RETURN(staging.gathered[i], device::Event::Create());
      BATON_ASSIGN_OR_RETURN(staging.moved[i], device::Event::Create());
    }
    return staging;
  }
  static size_t slot(uint64_t piece) { return piece % kNcclPieces; }
  std::byte* buffer(uint64_t piece) {
    return pool != nullptr ? pool->buffer(slot(piece)) : memory.data() + slot(piece) * kNcclPieceBytes;
  }

  std::unique_ptr<PoolStaging> pool;  // gathers and scatters
  device::Memory memory;              // the buffers, where there is no pool
  device::Stream wire;                // NCCL's
  device::Stream copies;              // of the host's bytes
  // By piece: its bytes lie in the buffer; they were sent or received.
  std::array<device::Event, kNcclPieces> gathered, moved;
};

}  // namespace baton
