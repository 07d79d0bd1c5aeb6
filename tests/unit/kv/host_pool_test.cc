#include "common/kv/host_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "common/base/hash.h"
#include "common/kv/key_order.h"

namespace baton {
namespace {

constexpr KvLayout kLayout{.dtype = DType::kF32,
                           .layers = 2,
                           .kv_heads = 1,
                           .head_dim = 4,
                           .block_size = 16,
                           .key_order = KeyOrder::kByElement};

std::vector<std::byte> RandomBytes(uint64_t bytes) {
  std::vector<std::byte> memory(bytes);
  std::mt19937 random(1);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
  return memory;
}

TEST(HostPool, ZeroesOnlyTheUnusedSlotsOfItsBlocks) {
  std::vector<std::byte> memory = RandomBytes(8 * kLayout.BytesPerBlock());
  const std::vector<std::byte> before = memory;
  HostPool pool(kLayout, memory);
  const std::vector<BlockId> blocks = {4, 6};
  ASSERT_TRUE(pool.Zero(blocks, 9, StepOrder::kBehind).ok());
  for (uint64_t i = 0; i < memory.size(); ++i) {
    const bool is_value = i / kLayout.HeadBytes() % 2 == 1;
    const uint64_t number = i / sizeof(float), slot = (is_value ? number / kLayout.head_dim : number) % 16;
    const uint64_t block = i / kLayout.BytesPerBlock();
    const bool unused = (block == 4 || block == 6) && slot >= 9;
    ASSERT_EQ(memory[i], unused ? std::byte{0} : before[i]) << "byte " << i;
  }
}

TEST(HostPool, ZeroFollowsTheOrderOfKeys) {
  const KvLayout layout{.dtype = DType::kF32, .layers = 1, .kv_heads = 1, .head_dim = 2, .block_size = 16};
  std::vector<std::byte> memory(layout.BytesPerBlock(), std::byte{0xff});
  const BlockId block = 0;
  ASSERT_TRUE(HostPool(layout, memory).Zero({&block, 1}, 3, StepOrder::kBehind).ok());
  const auto* keys = reinterpret_cast<const uint32_t*>(memory.data());
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(keys[i], i < 3 * 2 ? 0xffffffffu : 0u) << i;
}

TEST(HostPool, ZeroTakesTheScalesOfInt8AsWell) {
  const KvLayout layout{.dtype = DType::kI8,
                        .layers = 1,
                        .kv_heads = 2,
                        .head_dim = 8,
                        .block_size = 16,
                        .key_order = KeyOrder::kByElement};
  std::vector<std::byte> memory(layout.BytesPerBlock(), std::byte{0xff});
  const BlockId block = 0;
  ASSERT_TRUE(HostPool(layout, memory).Zero({&block, 1}, 15, StepOrder::kBehind).ok());
  uint64_t zeros = 0;
  for (const std::byte byte : memory) zeros += byte == std::byte{0};
  EXPECT_EQ(zeros, layout.BytesPerToken());
  for (uint32_t kv = 0; kv < 2; ++kv) {
    const auto* end = reinterpret_cast<const uint32_t*>(memory.data() + layout.HeadOffset(0, 0, kv, 1));
    EXPECT_EQ(end[-1], 0u);
    EXPECT_EQ(end[-2], 0xffffffffu);
  }
}

TEST(HostPool, BlocksOutsideAreRefused) {
  std::vector<std::byte> memory(3 * kLayout.BytesPerBlock() + 1);
  HostPool pool(kLayout, memory);
  EXPECT_EQ(pool.blocks(), 3u);
  const BlockId block = 3;
  uint64_t checksum;
  EXPECT_EQ(pool.Zero({&block, 1}, 0, StepOrder::kBehind).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(pool.Checksums({&block, 1}, kLayout.key_order, StepOrder::kBehind, {&checksum, 1}).code(),
            absl::StatusCode::kOutOfRange);
}

// Key `element` of `slot` moves from one order's place to the other's; everything else stays.
TEST(KeyOrder, CopyTransposesKeysAndNothingElse) {
  const std::vector<std::byte> block = RandomBytes(kLayout.BytesPerBlock());
  std::vector<std::byte> copy(block.size());
  CopyBlockInOrder(kLayout, KeyOrder::kBySlot, block.data(), copy.data());
  const auto* from = reinterpret_cast<const uint32_t*>(block.data());
  const auto* to = reinterpret_cast<const uint32_t*>(copy.data());
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (uint32_t slot = 0; slot < 16; ++slot) {
      for (uint32_t element = 0; element < 4; ++element) {
        EXPECT_EQ(to[layer * 128 + slot * 4 + element], from[layer * 128 + element * 16 + slot]);
        const uint32_t value = layer * 128 + 64 + slot * 4 + element;
        EXPECT_EQ(to[value], from[value]);
      }
    }
  }
  KvLayout by_slot = kLayout;
  by_slot.key_order = KeyOrder::kBySlot;
  std::vector<std::byte> back(block.size());
  CopyBlockInOrder(by_slot, KeyOrder::kByElement, copy.data(), back.data());
  EXPECT_EQ(back, block);
}

TEST(HostPool, ReadsRunsThatBeginAnywhereInTheOrderAsked) {
  std::vector<std::byte> memory = RandomBytes(3 * kLayout.BytesPerBlock());
  HostPool pool(kLayout, memory);
  std::vector<std::byte> whole(memory.size());
  for (int i = 0; i < 3; ++i) {
    const uint64_t at = i * kLayout.BytesPerBlock();
    CopyBlockInOrder(kLayout, KeyOrder::kBySlot, memory.data() + at, whole.data() + at);
  }
  const auto staging = pool.MakeStaging(StagingPlace::kHost, 2, 4096).value();
  const std::vector<PoolRun> runs = {{100, 1500, 0}, {1020, 7, 1500}, {2048, 1024, 2000}};
  ASSERT_TRUE(staging->Read(1, runs, KeyOrder::kBySlot).ok());
  ASSERT_TRUE(staging->Wait(1).ok());
  for (const PoolRun& run : runs) {
    EXPECT_EQ(std::memcmp(staging->buffer(1) + run.at, whole.data() + run.offset, run.bytes), 0) << run.offset;
  }
  std::vector<uint64_t> checksums(2);
  const std::vector<BlockId> blocks = {2, 0};
  ASSERT_TRUE(pool.Checksums(blocks, KeyOrder::kBySlot, StepOrder::kBehind, checksums).ok());
  const std::span<const std::byte> bytes = whole;
  EXPECT_EQ(checksums[0], Checksum(bytes.subspan(2 * kLayout.BytesPerBlock())));
  EXPECT_EQ(checksums[1], Checksum(bytes.first(kLayout.BytesPerBlock())));
}

}  // namespace
}  // namespace baton
