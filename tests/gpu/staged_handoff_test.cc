#include "tests/gpu/block_handoff.h"

namespace baton {
namespace {

using StagedHandoff = BlockHandoff;

TEST_F(StagedHandoff, OverDeviceMemoryGivesTheTokensOfTheLocalRunner) {
  ExpectSameTokens(StagingPlace::kFirstDevice, [&](std::byte* from, std::byte* to, uint64_t bytes) {
    ASSERT_TRUE(device_stream().Copy(to, from, bytes).ok());
    ASSERT_TRUE(device_stream().Synchronize().ok());
  });
}

TEST_F(StagedHandoff, OverPinnedMemoryGivesTheTokensOfTheLocalRunner) {
  ExpectSameTokens(StagingPlace::kHost, [](std::byte* from, std::byte* to, uint64_t bytes) {
    std::memcpy(to, from, bytes);  // what a network does
  });
}

}  // namespace
}  // namespace baton
