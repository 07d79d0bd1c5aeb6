#include "common/engine/cuda_collectives.h"

#include <nccl.h>

#include "common/base/status.h"

namespace baton {

namespace {

absl::Status ToStatus(ncclResult_t result, std::string_view what) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  return Internal("%s: %s", what, ncclGetErrorString(result));
}

// Calls `enqueue` for every rank as one group; the first error comes out.
template <typename Enqueue>
absl::Status InGroup(size_t ranks, std::string_view what, const Enqueue& enqueue) {
  BATON_RETURN_IF_ERROR(ToStatus(ncclGroupStart(), "ncclGroupStart"));
  absl::Status status;
  for (size_t rank = 0; status.ok() && rank < ranks; ++rank) status = ToStatus(enqueue(rank), what);
  const absl::Status ended = ToStatus(ncclGroupEnd(), "ncclGroupEnd");
  return status.ok() ? ended : status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaCollectives>> CudaCollectives::Connect(std::span<const int> devices) {
  std::unique_ptr<CudaCollectives> collectives(new CudaCollectives);
  std::vector<ncclComm*> communicators(devices.size(), nullptr);
  BATON_RETURN_IF_ERROR(ToStatus(
      ncclCommInitAll(communicators.data(), static_cast<int>(devices.size()), devices.data()), "ncclCommInitAll"));
  collectives->communicators_ = std::move(communicators);
  return collectives;
}

absl::Status CudaCollectives::AllReduce(std::span<const Part> parts, uint64_t count) {
  if (communicators_.empty()) return Internal("the ranks are not connected any more");
  return InGroup(parts.size(), "ncclAllReduce", [&](size_t rank) {
    const Part& part = parts[rank];
    return ncclAllReduce(part.from, part.to, count, ncclFloat32, ncclSum, communicators_[rank], part.stream->get());
  });
}

absl::Status CudaCollectives::AllGather(std::span<const Part> parts, uint64_t count) {
  if (communicators_.empty()) return Internal("the ranks are not connected any more");
  return InGroup(parts.size(), "ncclAllGather", [&](size_t rank) {
    const Part& part = parts[rank];
    return ncclAllGather(part.from, part.to, count, ncclFloat32, communicators_[rank], part.stream->get());
  });
}

absl::Status CudaCollectives::Error() const {
  for (ncclComm* communicator : communicators_) {
    ncclResult_t state = ncclSuccess;
    BATON_RETURN_IF_ERROR(ToStatus(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError"));
    BATON_RETURN_IF_ERROR(ToStatus(state, "NCCL between the ranks"));
  }
  return absl::OkStatus();
}

void CudaCollectives::Abort() {
  for (ncclComm* communicator : communicators_) (void)ncclCommAbort(communicator);
  communicators_.clear();
}

CudaCollectives::~CudaCollectives() { Abort(); }

}  // namespace baton
