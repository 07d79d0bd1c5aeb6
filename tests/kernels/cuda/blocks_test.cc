#include <random>
#include <span>

#include "common/base/hash.h"
#include "kernels/cuda/block_copy.h"
#include "kernels/cuda/checksum.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/kernels/cuda/thread_orders.h"
#include "tests/kernels/random_floats.h"

namespace baton {
namespace {

std::vector<std::byte> RandomBytes(size_t count, uint32_t seed) {
  std::mt19937 generator(seed + TestSeed());
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(generator());
  return bytes;
}

class CudaBlocks : public CudaTest {
 protected:
  static constexpr int64_t kBlockBytes = 16 * 1100;  // several blocks of threads, the last one not full
  static std::span<const std::byte> Block(const std::vector<std::byte>& memory, size_t index) {
    return std::span(memory).subspan(index * kBlockBytes, kBlockBytes);
  }
};

TEST_F(CudaBlocks, AreCopiedWithinThePool) {
  const std::vector<std::byte> pool = RandomBytes(6 * kBlockBytes, 1);
  std::byte* memory = ToDevice(pool);
  Expect(cuda::CopyBlocks(memory, ToDevice(std::vector<BlockId>{5, 0}), memory, ToDevice(std::vector<BlockId>{1, 3}), 2,
                          kBlockBytes, stream()));
  const std::vector<std::byte> after = ToHost(memory, pool.size());
  const size_t from[] = {0, 5, 2, 0, 4, 5};
  for (size_t block = 0; block < 6; ++block) {
    EXPECT_TRUE(std::ranges::equal(Block(after, block), Block(pool, from[block]))) << block;
  }
}

TEST_F(CudaBlocks, AreGatheredToStagingAndScatteredFromIt) {
  const std::vector<std::byte> pool = RandomBytes(6 * kBlockBytes, 2);
  const BlockId* ids = ToDevice(std::vector<BlockId>{4, 1, 5});
  std::byte* staging = NewDevice<std::byte>(3 * kBlockBytes);
  std::byte* other_pool = ToDevice(RandomBytes(6 * kBlockBytes, 3));
  Expect(cuda::CopyBlocks(ToDevice(pool), ids, staging, nullptr, 3, kBlockBytes, stream()));
  Expect(cuda::CopyBlocks(staging, nullptr, other_pool, ids, 3, kBlockBytes, stream()));
  const std::vector<std::byte> gathered = ToHost(staging, 3 * kBlockBytes), after = ToHost(other_pool, pool.size());
  const std::vector<std::byte> before = RandomBytes(6 * kBlockBytes, 3);
  EXPECT_TRUE(std::ranges::equal(Block(gathered, 0), Block(pool, 4)));
  EXPECT_TRUE(std::ranges::equal(Block(gathered, 2), Block(pool, 5)));
  for (size_t block = 0; block < 6; ++block) {
    const bool written = block == 1 || block == 4 || block == 5;
    EXPECT_TRUE(std::ranges::equal(Block(after, block), Block(written ? pool : before, block))) << block;
  }
}

TEST_F(CudaBlocks, AreSwappedToPinnedMemoryAndBack) {
  const std::vector<std::byte> pool = RandomBytes(3 * kBlockBytes, 4);
  auto swapped = device::Memory::Allocate(device::MemoryKind::kPinned, 2 * kBlockBytes);
  ASSERT_TRUE(swapped.ok());
  std::byte* memory = ToDevice(pool);
  const BlockId* from = ToDevice(std::vector<BlockId>{2, 0});
  const BlockId* back = ToDevice(std::vector<BlockId>{0, 2});
  Expect(cuda::CopyBlocks(memory, from, swapped->data(), nullptr, 2, kBlockBytes, stream()));
  Expect(cuda::CopyBlocks(swapped->data(), nullptr, memory, back, 2, kBlockBytes, stream()));
  const std::vector<std::byte> after = ToHost(memory, pool.size());
  EXPECT_TRUE(std::ranges::equal(Block(after, 0), Block(pool, 2)));
  EXPECT_TRUE(std::ranges::equal(Block(after, 2), Block(pool, 0)));
}

TEST_F(CudaBlocks, HaveTheChecksumsOfTheCpu) {
  for (const int64_t block_bytes : {16, 496, 512, 528, 4096}) {
    const std::vector<std::byte> pool = RandomBytes(5 * block_bytes, 5);
    const std::vector<BlockId> ids = {3, 0, 4};
    std::vector<uint64_t> expected;
    for (const BlockId id : ids) expected.push_back(Checksum(std::span(pool).subspan(id * block_bytes, block_bytes)));
    ForEveryOrder([&] {
      uint64_t* checksums = NewDevice<uint64_t>(3);
      Expect(cuda::ChecksumBlocks(ToDevice(pool), ToDevice(ids), 3, block_bytes, checksums, stream()));
      EXPECT_EQ(ToHost(checksums, 3), expected) << block_bytes;
    });
  }
}

TEST_F(CudaBlocks, OfOddSizesAreRefused) {
  EXPECT_EQ(cuda::CopyBlocks(nullptr, nullptr, nullptr, nullptr, 1, 24, stream()), cuda::Error::kInvalidValue);
  EXPECT_EQ(cuda::ChecksumBlocks(nullptr, nullptr, 1, 24, nullptr, stream()), cuda::Error::kInvalidValue);
}

}  // namespace
}  // namespace baton
