#pragma once

// Staging buffers of one end of a session and the streams that fill and empty them.

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/transport/nccl/nccl_wire.h"

namespace baton {

struct NcclStaging {
  static absl::StatusOr<NcclStaging> Create() {
    NcclStaging staging;
    BATON_ASSIGN_OR_RETURN(staging.memory,
                           device::Memory::Allocate(device::MemoryKind::kDevice, kNcclPieceBytes * kNcclPieces));
    BATON_ASSIGN_OR_RETURN(staging.wire, device::Stream::Create());
    BATON_ASSIGN_OR_RETURN(staging.copies, device::Stream::Create());
    for (size_t i = 0; i < kNcclPieces; ++i) {
      BATON_ASSIGN_OR_RETURN(staging.gathered[i], device::Event::Create());
      BATON_ASSIGN_OR_RETURN(staging.moved[i], device::Event::Create());
    }
    return staging;
  }
  std::byte* buffer(uint64_t piece) { return memory.data() + piece % kNcclPieces * kNcclPieceBytes; }

  device::Memory memory;
  device::Stream wire;    // NCCL's
  device::Stream copies;  // gather or scatter
  // By piece: its bytes lie in the buffer; they were sent or received.
  std::array<device::Event, kNcclPieces> gathered, moved;
};

}  // namespace baton
