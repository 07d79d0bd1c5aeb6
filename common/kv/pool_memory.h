#pragma once

// The bytes of a worker's KV pool as handoff and transports see them: blocks of `layout()`, all KV heads of it, one
// behind the other, wherever they really lie. HostPool is memory of this process; the CUDA engine's pool
// (common/engine/cuda_pool.h) is one allocation on each of its devices, each with its share of the heads of every
// block.
//
// Nothing here is called by the step thread. Calls may wait for a device, and see what the steps enqueued before have
// written. All but PoolStaging is thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/kv/layout.h"

struct CUstream_st;

namespace baton {

// Bytes of the pool, and where they lie in a staging buffer.
struct PoolRun {
  uint64_t offset = 0;  // from the pool's start
  uint64_t bytes = 0;
  uint64_t at = 0;  // from the buffer's start
};

// Buffers through which bytes leave the pool and enter it. Not thread-safe; the pool outlives it. Destruction waits for
// what is under way.
class PoolStaging {
 public:
  virtual ~PoolStaging() = default;

  virtual std::byte* buffer(size_t index) const = 0;

  // Start to copy `runs`, which lie inside the pool and the buffer, between pool and buffer; the host may touch neither
  // until Done. Read gives keys in `order`, whatever the pool's own, and sees what earlier steps wrote. Write takes the
  // pool's own order, and does not wait for steps: no step has used these blocks since Zero was called for their lease.
  virtual absl::Status Read(size_t index, std::span<const PoolRun> runs, KeyOrder order) = 0;
  virtual absl::Status Write(size_t index, std::span<const PoolRun> runs) = 0;

  // Whether the last of those calls for this buffer is over; or waits until it is. Their errors come out here.
  virtual absl::StatusOr<bool> Done(size_t index) = 0;
  virtual absl::Status Wait(size_t index) = 0;

  // For device buffers: what is enqueued in `stream`, of the first device, from now on runs after the last call for
  // this buffer; and the other way round: its next call runs after what is in `stream` now.
  virtual absl::Status MakeWait(CUstream_st* stream, size_t index) = 0;
  virtual absl::Status WaitFor(CUstream_st* stream, size_t index) = 0;
};

enum class StagingPlace : uint8_t {
  kHost,         // memory that the host reads and writes; pinned where a device is involved
  kFirstDevice,  // memory of the pool's first device
};

class PoolMemory {
 public:
  virtual ~PoolMemory() = default;

  virtual const KvLayout& layout() const = 0;
  virtual uint32_t blocks() const = 0;
  uint64_t bytes() const { return blocks() * layout().BytesPerBlock(); }

  // All of it, where it is memory of this process; else empty.
  virtual std::span<std::byte> host() const = 0;

  // checksums[i] = Checksum (common/base/hash.h) of block ids[i] with its keys in `order`. OUT_OF_RANGE for a block
  // that is not there.
  virtual absl::Status Checksums(std::span<const BlockId> ids, KeyOrder order, std::span<uint64_t> checksums) = 0;

  // Zeroes slots [used, block_size) of every head and layer of each block: what a writer or an earlier holder left
  // there never reaches attention. Later steps see it. Also waits for the steps enqueued so far, with no blocks too.
  virtual absl::Status Zero(std::span<const BlockId> ids, uint32_t used) = 0;

  // `buffers` of `bytes` each, aligned to 256. FAILED_PRECONDITION for a place that this pool has not.
  virtual absl::StatusOr<std::unique_ptr<PoolStaging>> MakeStaging(StagingPlace place, size_t buffers,
                                                                   uint64_t bytes) = 0;
};

}  // namespace baton
