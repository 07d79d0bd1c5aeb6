#pragma once

// Two ranks that send bytes from one's device memory to the other's. No call waits for the peer; one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/stream.h"

struct ncclComm;

namespace baton {

class NcclCommunicator {
 public:
  enum Rank : int { kTarget = 0, kWriter = 1 };

  // Names a communicator to both ranks.
  static absl::StatusOr<std::string> NewId();
  // Starts to meet the other rank, which calls this with the same id. INVALID_ARGUMENT for bytes that are no id.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Start(std::string_view id, Rank rank);

  // Aborts what is under way: the stream's work on this communicator ends without its bytes.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;

  // False while the last call is still being taken up: only when true may another follow. An error ends the
  // communicator.
  absl::StatusOr<bool> Settled();
  // Enqueue; both ranks must name the same number of bytes, above 0.
  absl::Status Send(const std::byte* from, uint64_t bytes, const device::Stream& stream);
  absl::Status Receive(std::byte* to, uint64_t bytes, const device::Stream& stream);

 private:
  explicit NcclCommunicator(ncclComm* communicator) : communicator_(communicator) {}
  ncclComm* const communicator_;
};

}  // namespace baton
