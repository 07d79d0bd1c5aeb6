#include "common/engine/cuda_staging.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/status.h"
#include "common/device/device.h"
#include "common/engine/cuda_status.h"

namespace baton {
namespace {

constexpr uint64_t kAlignment = 256;

uint64_t EndOf(std::span<const PoolRun> runs) {
  uint64_t end = 0;
  for (const PoolRun& run : runs) end = std::max(end, run.at + run.bytes);
  return end;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PoolStaging>> CudaStaging::Create(CudaPool* pool, StagingPlace place, size_t buffers,
                                                                 uint64_t bytes) {
  std::unique_ptr<CudaStaging> staging(new CudaStaging(pool, place, bytes));
  BATON_RETURN_IF_ERROR(staging->Allocate(buffers));
  return staging;
}

CudaStaging::CudaStaging(CudaPool* pool, StagingPlace place, uint64_t bytes)
    : pool_(pool), place_(place), stride_((bytes + kAlignment - 1) / kAlignment * kAlignment) {}

CudaStaging::~CudaStaging() {
  for (const device::Stream& stream : streams_) {
    if (stream.get() != nullptr) (void)stream.Synchronize();
  }
}

absl::Status CudaStaging::Allocate(size_t buffers) {
  const size_t ranks = pool_->ranks();
  const bool on_device = place_ == StagingPlace::kFirstDevice;
  streams_.resize(ranks);
  events_.resize(buffers * ranks);
  for (size_t rank = ranks; rank-- > 0;) {  // the first device stays the thread's
    BATON_RETURN_IF_ERROR(device::Use(pool_->ranks_[rank].device));
    BATON_ASSIGN_OR_RETURN(streams_[rank], device::Stream::Create());
    for (size_t i = 0; i < buffers; ++i) {
      BATON_ASSIGN_OR_RETURN(event(i, rank), device::Event::Create());
    }
  }
  const auto kind = on_device ? device::MemoryKind::kDevice : device::MemoryKind::kPinned;
  BATON_ASSIGN_OR_RETURN(memory_, device::Memory::Allocate(kind, buffers * stride_));
  if (on_device && ranks > 1) {
    BATON_ASSIGN_OR_RETURN(bounce_, device::Memory::Allocate(device::MemoryKind::kPinned, buffers * stride_));
  }
  return absl::OkStatus();
}

absl::Status CudaStaging::Move(size_t index, std::span<const PoolRun> runs, size_t rank, bool gather, bool by_element) {
  const CudaPool::Rank& of = pool_->ranks_[rank];
  const device::Stream& stream = streams_[rank];
  std::byte* const buffer = reached(index);
  if (copies(by_element ? KeyOrder::kByElement : KeyOrder::kBySlot)) {
    for (const PoolRun& run : runs) {
      std::byte* const in_pool = of.memory.data() + run.offset;
      std::byte* const in_buffer = buffer + run.at;
      BATON_RETURN_IF_ERROR(gather ? stream.Copy(in_buffer, in_pool, run.bytes)
                                   : stream.Copy(in_pool, in_buffer, run.bytes));
    }
    return absl::OkStatus();
  }
  for (size_t first = 0; first < runs.size(); first += cuda::kMaxPoolRanges) {
    std::array<cuda::PoolRange, cuda::kMaxPoolRanges> ranges;
    const int count = static_cast<int>(std::min<size_t>(cuda::kMaxPoolRanges, runs.size() - first));
    for (int i = 0; i < count; ++i) {
      const PoolRun& run = runs[first + i];
      ranges[i] = {static_cast<int64_t>(run.offset), static_cast<int64_t>(run.bytes), static_cast<int64_t>(run.at)};
    }
    const cuda::Error error =
        gather ? cuda::GatherPoolBytes(of.share, ranges.data(), count, by_element, buffer, stream.get())
               : cuda::ScatterPoolBytes(of.share, ranges.data(), count, buffer, stream.get());
    BATON_RETURN_IF_ERROR(Enqueued(error, "moving KV bytes"));
  }
  return absl::OkStatus();
}

absl::Status CudaStaging::Read(size_t index, std::span<const PoolRun> runs, KeyOrder order) {
  const size_t ranks = pool_->ranks();
  for (size_t rank = ranks; rank-- > 0;) {
    BATON_RETURN_IF_ERROR(device::Use(pool_->ranks_[rank].device));
    BATON_RETURN_IF_ERROR(streams_[rank].WaitFor(pool_->ranks_[rank].stepped));
    BATON_RETURN_IF_ERROR(Move(index, runs, rank, true, order == KeyOrder::kByElement));
    if (bounces() && rank > 0) BATON_RETURN_IF_ERROR(streams_[rank].Record(event(index, rank)));
  }
  if (bounces()) {
    for (size_t rank = 1; rank < ranks; ++rank) BATON_RETURN_IF_ERROR(streams_[0].WaitFor(event(index, rank)));
    BATON_RETURN_IF_ERROR(streams_[0].Copy(buffer(index), reached(index), EndOf(runs)));
  }
  for (size_t rank = 0; rank < ranks; ++rank) BATON_RETURN_IF_ERROR(streams_[rank].Record(event(index, rank)));
  return absl::OkStatus();
}

absl::Status CudaStaging::Write(size_t index, std::span<const PoolRun> runs) {
  const size_t ranks = pool_->ranks();
  if (bounces()) {
    BATON_RETURN_IF_ERROR(device::Use(pool_->ranks_[0].device));
    BATON_RETURN_IF_ERROR(streams_[0].Copy(reached(index), buffer(index), EndOf(runs)));
    BATON_RETURN_IF_ERROR(streams_[0].Record(event(index, 0)));
    for (size_t rank = 1; rank < ranks; ++rank) BATON_RETURN_IF_ERROR(streams_[rank].WaitFor(event(index, 0)));
  }
  absl::Status status;
  for (size_t rank = ranks; rank-- > 0;) {
    status.Update(device::Use(pool_->ranks_[rank].device));
    if (status.ok()) status = Move(index, runs, rank, false, false);
    // Also after an error: some of it may be under way, which Wait must wait for.
    status.Update(streams_[rank].Record(event(index, rank)));
  }
  return status;
}

absl::StatusOr<bool> CudaStaging::Done(size_t index) {
  for (size_t rank = 0; rank < pool_->ranks(); ++rank) {
    BATON_ASSIGN_OR_RETURN(const bool reached, event(index, rank).Reached());
    if (!reached) return false;
  }
  return true;
}

absl::Status CudaStaging::Wait(size_t index) {
  absl::Status status;
  for (size_t rank = 0; rank < pool_->ranks(); ++rank) status.Update(event(index, rank).Wait());
  return status;
}

absl::Status CudaStaging::MakeWait(const device::Stream& stream, size_t index) {
  if (place_ != StagingPlace::kFirstDevice) return FailedPrecondition("the buffers lie in host memory");
  for (size_t rank = 0; rank < pool_->ranks(); ++rank) BATON_RETURN_IF_ERROR(stream.WaitFor(event(index, rank)));
  return absl::OkStatus();
}

}  // namespace baton
