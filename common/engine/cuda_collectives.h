#pragma once

// What the devices of one process tell each other within a step, by NCCL in their compute streams. One thread calls for
// all ranks: a call is enqueued for every rank or for none, so that no rank waits for one that will never come, unless
// its device fails.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/stream.h"

struct ncclComm;

namespace baton {

class CudaCollectives {
 public:
  // FAILED_PRECONDITION when this build has no NCCL, INTERNAL with its error when the devices cannot be connected.
  static absl::StatusOr<std::unique_ptr<CudaCollectives>> Connect(std::span<const int> devices);

  // Aborts. Graphs with calls of it must be gone: NCCL waits for them.
  ~CudaCollectives();
  CudaCollectives(const CudaCollectives&) = delete;

  // Memory and stream of a rank's device.
  struct Part {
    const float* from;
    float* to;
    const device::Stream* stream;
  };
  // to[i] = the sum of all ranks' from[i], i < count; to may be from. The order of the sum is NCCL's and may depend on
  // `count`.
  absl::Status AllReduce(std::span<const Part> parts, uint64_t count);
  // to: [ranks, count], from: [count].
  absl::Status AllGather(std::span<const Part> parts, uint64_t count);

  // An error of what was enqueued, or OK; does not wait.
  absl::Status Error() const;
  // Ends what waits in the streams, whose results are void. No call works any more.
  void Abort();

 private:
  CudaCollectives() = default;
  std::vector<ncclComm*> communicators_;  // by rank
};

}  // namespace baton
