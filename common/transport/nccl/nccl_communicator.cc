#include "common/transport/nccl/nccl_communicator.h"

#include <nccl.h>

#include <cstring>

#include "common/base/status.h"

namespace baton {
namespace {

// In progress is no error: Settled() says when it is over.
absl::Status ToStatus(ncclResult_t result, std::string_view what) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  return Unavailable("%s: %s", what, ncclGetErrorString(result));
}

}  // namespace

absl::StatusOr<std::string> NcclCommunicator::NewId() {
  ncclUniqueId id;
  BATON_RETURN_IF_ERROR(ToStatus(ncclGetUniqueId(&id), "ncclGetUniqueId"));
  return std::string(id.internal, sizeof(id.internal));
}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Start(std::string_view id, Rank rank) {
  ncclUniqueId unique;
  if (id.size() != sizeof(unique.internal)) {
    return InvalidArgument("an NCCL id has %d bytes, not %d", sizeof(unique.internal), id.size());
  }
  std::memcpy(unique.internal, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t communicator = nullptr;
  const absl::Status status =
      ToStatus(ncclCommInitRankConfig(&communicator, 2, unique, rank, &config), "ncclCommInitRankConfig");
  if (!status.ok()) {
    if (communicator != nullptr) (void)ncclCommAbort(communicator);
    return status;
  }
  return std::unique_ptr<NcclCommunicator>(new NcclCommunicator(communicator));
}

NcclCommunicator::~NcclCommunicator() { (void)ncclCommAbort(communicator_); }

absl::StatusOr<bool> NcclCommunicator::Settled() {
  ncclResult_t state = ncclSuccess;
  BATON_RETURN_IF_ERROR(ToStatus(ncclCommGetAsyncError(communicator_, &state), "ncclCommGetAsyncError"));
  BATON_RETURN_IF_ERROR(ToStatus(state, "NCCL"));
  return state == ncclSuccess;
}

absl::Status NcclCommunicator::Send(const std::byte* from, uint64_t bytes, const device::Stream& stream) {
  return ToStatus(ncclSend(from, bytes, ncclUint8, kTarget, communicator_, stream.get()), "ncclSend");
}

absl::Status NcclCommunicator::Receive(std::byte* to, uint64_t bytes, const device::Stream& stream) {
  return ToStatus(ncclRecv(to, bytes, ncclUint8, kWriter, communicator_, stream.get()), "ncclRecv");
}

}  // namespace baton
