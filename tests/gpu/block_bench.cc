#include <algorithm>
#include <vector>

#include "common/base/status.h"
#include "kernels/cuda/block_copy.h"
#include "kernels/cuda/checksum.h"
#include "tests/gpu/measures.h"

namespace baton {

absl::Status MeasureBlocks(const BenchEngine& engine, Records& records) {
  using device::Memory;
  using device::MemoryKind;
  constexpr uint64_t kBytes = uint64_t{1} << 28;
  const device::Stream& stream = engine.stream();
  const auto block_bytes = static_cast<int64_t>(engine.layout().BytesPerBlock());
  const auto count =
      static_cast<uint32_t>(std::clamp<uint64_t>(kBytes / static_cast<uint64_t>(block_bytes), 1, engine.blocks()));
  BATON_ASSIGN_OR_RETURN(const auto tables, engine.Tables(1, count * engine.layout().block_size));
  BATON_ASSIGN_OR_RETURN(const Memory ids, Memory::Allocate(MemoryKind::kDevice, count * sizeof(BlockId)));
  BATON_RETURN_IF_ERROR(stream.Copy(ids.data(), tables[0].data(), count * sizeof(BlockId)));
  BATON_ASSIGN_OR_RETURN(const Memory checksums, Memory::Allocate(MemoryKind::kDevice, count * sizeof(uint64_t)));
  const auto write = [&](const char* what, double seconds) {
    return records.Write({{"measure", "blocks"},
                          {"model", engine.shape().model},
                          {"what", what},
                          {"blocks", count},
                          {"block_bytes", block_bytes},
                          {"seconds", seconds}});
  };
  const auto enqueued = [](cuda::Error error) { return device::ToStatus(static_cast<int>(error), "copying blocks"); };
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinned}) {
    BATON_ASSIGN_OR_RETURN(const Memory staging, Memory::Allocate(kind, count * static_cast<uint64_t>(block_bytes)));
    const bool on_device = kind == MemoryKind::kDevice;
    BATON_ASSIGN_OR_RETURN(const double gather, SecondsOf(stream, engine.shape().rounds, [&] {
                             return enqueued(cuda::CopyBlocks(engine.pool(), ids.as<BlockId>(), staging.data(), nullptr,
                                                              count, block_bytes, stream.get()));
                           }));
    BATON_RETURN_IF_ERROR(write(on_device ? "gather to the device" : "gather to the host", gather));
    BATON_ASSIGN_OR_RETURN(const double scatter, SecondsOf(stream, engine.shape().rounds, [&] {
                             return enqueued(cuda::CopyBlocks(staging.data(), nullptr, engine.pool(), ids.as<BlockId>(),
                                                              count, block_bytes, stream.get()));
                           }));
    BATON_RETURN_IF_ERROR(write(on_device ? "scatter from the device" : "scatter from the host", scatter));
  }
  BATON_ASSIGN_OR_RETURN(const double checksum, SecondsOf(stream, engine.shape().rounds, [&] {
                           return enqueued(cuda::ChecksumBlocks(engine.pool(), ids.as<BlockId>(), count, block_bytes,
                                                                checksums.as<uint64_t>(), stream.get()));
                         }));
  return write("checksums", checksum);
}

}  // namespace baton
