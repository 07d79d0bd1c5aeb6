#pragma once

// The bytes of a worker's KV pool as handoff and transports see them: blocks of `layout()`, all KV heads of it, one
// behind the other, wherever they really lie. HostPool is memory of this process; the CUDA engine's pool
// (common/engine/cuda_pool.h) is one allocation on each of its devices, each with its share of the heads of every
// block.
//
// Nothing here is called by the step thread: calls may wait for a device. All but PoolStaging is thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/kv/layout.h"

namespace baton::device {
class Stream;
}

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
  // pool's own order, and does not wait for steps: since Zero was called for their lease, none uses these blocks.
  virtual absl::Status Read(size_t index, std::span<const PoolRun> runs, KeyOrder order) = 0;
  virtual absl::Status Write(size_t index, std::span<const PoolRun> runs) = 0;

  // Whether the last of those calls for this buffer is over; or waits until it is. Their errors come out here.
  virtual absl::StatusOr<bool> Done(size_t index) = 0;
  virtual absl::Status Wait(size_t index) = 0;

  // For device buffers: what is enqueued in `stream`, of the first device, from now on runs after the last call for
  // this buffer. FAILED_PRECONDITION for others.
  virtual absl::Status MakeWait(const device::Stream& stream, size_t index) = 0;
};

enum class StagingPlace : uint8_t {
  kHost,         // memory that the host reads and writes; pinned where a device is involved
  kFirstDevice,  // memory of the pool's first device
};

// Whether work on the pool runs behind the steps that are enqueued by then, and with it what they had enqueued for
// earlier holders of the blocks; or beside them, which is sooner, for blocks that no step knows.
enum class StepOrder : uint8_t { kBehind, kBeside };

class PoolMemory {
 public:
  virtual ~PoolMemory() = default;

  virtual const KvLayout& layout() const = 0;
  virtual uint32_t blocks() const = 0;
  uint64_t bytes() const { return blocks() * layout().BytesPerBlock(); }

  // All of it, where it is memory of this process; else empty.
  virtual std::span<std::byte> host() const = 0;
  // All of it, where it is one allocation of one device: a network card may reach it there. Else empty.
  virtual std::span<std::byte> device() const = 0;

  // checksums[i] = Checksum (common/base/hash.h) of block ids[i] with its keys in `order`. OUT_OF_RANGE for a block
  // that is not there.
  virtual absl::Status Checksums(std::span<const BlockId> ids, KeyOrder order, StepOrder steps,
                                 std::span<uint64_t> checksums) = 0;

  // Zeroes slots [used, block_size) of every head and layer of each block: what a writer or an earlier holder left
  // there never reaches attention. It is done on return.
  virtual absl::Status Zero(std::span<const BlockId> ids, uint32_t used, StepOrder steps) = 0;

  // `buffers` of `bytes` each, aligned to 256. FAILED_PRECONDITION for a place that this pool has not.
  virtual absl::StatusOr<std::unique_ptr<PoolStaging>> MakeStaging(StagingPlace place, size_t buffers,
                                                                   uint64_t bytes) = 0;
};

}  // namespace baton
