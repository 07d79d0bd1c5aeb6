// Of a build without NCCL's header: one rank, which exchanges nothing.

#include "common/base/status.h"
#include "common/engine/cuda_collectives.h"

namespace baton {

absl::StatusOr<std::unique_ptr<CudaCollectives>> CudaCollectives::Connect(std::span<const int> devices) {
  return FailedPrecondition("tensor parallel size %d: this build has no NCCL", devices.size());
}

CudaCollectives::~CudaCollectives() = default;
absl::Status CudaCollectives::AllReduce(std::span<const Part>, uint64_t) { return absl::OkStatus(); }
absl::Status CudaCollectives::AllGather(std::span<const Part>, uint64_t) { return absl::OkStatus(); }
absl::Status CudaCollectives::Error() const { return absl::OkStatus(); }
void CudaCollectives::Abort() {}

}  // namespace baton
