// KV blocks by NCCL's send and receive, from a rank to itself: one GPU is enough.

#include <nccl.h>

#include "tests/gpu/block_handoff.h"

namespace baton {
namespace {

using NcclHandoff = BlockHandoff;

void Check(ncclResult_t result) { ASSERT_EQ(result, ncclSuccess) << ncclGetErrorString(result); }

TEST_F(NcclHandoff, FromARankToItselfGivesTheTokensOfTheLocalRunner) {
  constexpr int kDevice = 0;
  ncclComm_t communicator = nullptr;
  const ncclResult_t started = ncclCommInitAll(&communicator, 1, &kDevice);
  if (communicator == nullptr && started == ncclSystemError) GTEST_SKIP() << ncclGetErrorString(started);
  ASSERT_EQ(started, ncclSuccess) << ncclGetErrorString(started);
  ExpectSameTokens(StagingPlace::kFirstDevice, [&](std::byte* from, std::byte* to, uint64_t bytes) {
    // In one group: a send to oneself waits for its receive.
    Check(ncclGroupStart());
    Check(ncclSend(from, bytes, ncclUint8, 0, communicator, stream()));
    Check(ncclRecv(to, bytes, ncclUint8, 0, communicator, stream()));
    Check(ncclGroupEnd());
    ASSERT_TRUE(device_stream().Synchronize().ok());
  });
  Check(ncclCommAbort(communicator));
}

}  // namespace
}  // namespace baton
