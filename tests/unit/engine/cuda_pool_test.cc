// The pool on one device and on several is the pool that a host would have.

#include "common/engine/cuda_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "common/base/status.h"
#include "common/device/device.h"
#include "common/kv/host_pool.h"
#include "tests/fakes/cuda/stand_in.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr KvLayout kLayout{.dtype = DType::kBF16, .layers = 3, .kv_heads = 4, .head_dim = 8, .block_size = 16};
constexpr uint32_t kBlocks = 12;

std::vector<int> Devices(int count) {
  std::vector<int> devices(static_cast<size_t>(count));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

class CudaPoolTest : public ::testing::TestWithParam<int> {
 protected:
  CudaPoolTest() {
    stand_in::SetDeviceCount(4);
    pool_ = CudaPool::Create(kLayout, kBlocks, Devices(GetParam())).value();
    std::mt19937 random(3);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
  }
  ~CudaPoolTest() override { EXPECT_EQ(stand_in::TakeKernelError(), ""); }

  // Puts `bytes_` into the pool.
  void Fill() {
    const auto staging = pool_->MakeStaging(StagingPlace::kHost, 1, bytes_.size()).value();
    std::memcpy(staging->buffer(0), bytes_.data(), bytes_.size());
    const PoolRun all{0, bytes_.size(), 0};
    ASSERT_TRUE(staging->Write(0, {&all, 1}).ok());
    ASSERT_TRUE(staging->Wait(0).ok());
  }
  std::vector<std::byte> Contents(KeyOrder order = KeyOrder::kBySlot) {
    const auto staging = pool_->MakeStaging(StagingPlace::kHost, 1, bytes_.size()).value();
    const PoolRun all{0, bytes_.size(), 0};
    EXPECT_TRUE(staging->Read(0, {&all, 1}, order).ok());
    EXPECT_TRUE(staging->Wait(0).ok());
    return {staging->buffer(0), staging->buffer(0) + bytes_.size()};
  }

  std::unique_ptr<CudaPool> pool_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kBlocks * kLayout.BytesPerBlock());
  HostPool host_{kLayout, bytes_};
};

TEST_P(CudaPoolTest, IsZeroAtFirst) { EXPECT_EQ(Contents(), std::vector<std::byte>(bytes_.size())); }

TEST_P(CudaPoolTest, EveryRankHoldsItsHeadsOfEveryBlock) {
  Fill();
  const KvLayout& part = pool_->rank_layout();
  ASSERT_EQ(part.kv_heads * pool_->ranks(), kLayout.kv_heads);
  for (size_t rank = 0; rank < pool_->ranks(); ++rank) {
    ASSERT_EQ(pool_->rank_memory(rank).size(), kBlocks * part.BytesPerBlock());
    for (BlockId block = 0; block < kBlocks; ++block) {
      for (uint32_t layer = 0; layer < kLayout.layers; ++layer) {
        for (uint32_t kv = 0; kv < 2; ++kv) {
          for (uint32_t head = 0; head < part.kv_heads; ++head) {
            const auto whole_head = static_cast<uint32_t>(rank * part.kv_heads + head);
            ASSERT_EQ(
                std::memcmp(pool_->rank_memory(rank).data() + part.HeadOffset(block, layer, kv, head),
                            bytes_.data() + kLayout.HeadOffset(block, layer, kv, whole_head), kLayout.HeadBytes()),
                0)
                << "rank " << rank << " block " << block << " layer " << layer << " kv " << kv << " head " << head;
          }
        }
      }
    }
  }
}

TEST_P(CudaPoolTest, RunsOfAnySizeLeaveAndEnterInBothOrdersAndPlaces) {
  Fill();
  std::mt19937 random(5);
  for (const StagingPlace place : {StagingPlace::kHost, StagingPlace::kFirstDevice}) {
    const auto staging = pool_->MakeStaging(place, 2, 3 << 12).value();
    const auto expected = host_.MakeStaging(StagingPlace::kHost, 1, 3 << 12).value();
    for (int round = 0; round < 20; ++round) {
      const uint64_t unit = round % 4 == 0 ? 1 : round % 4 == 1 ? 2 : 16;
      std::vector<PoolRun> runs;
      for (uint64_t at = 0; at < (3 << 12) - 300 * unit && runs.size() < 100;) {
        const uint64_t bytes = std::min<uint64_t>(unit * (1 + random() % 300), (3 << 12) - at);
        runs.push_back({random() % ((bytes_.size() - bytes) / unit) * unit, bytes, at});
        at += bytes;
      }
      const KeyOrder order = round % 3 == 0 ? KeyOrder::kByElement : KeyOrder::kBySlot;
      ASSERT_TRUE(staging->Read(1, runs, order).ok());
      ASSERT_TRUE(staging->Wait(1).ok());
      ASSERT_TRUE(*staging->Done(1));
      ASSERT_TRUE(expected->Read(0, runs, order).ok());
      const uint64_t bytes = runs.back().at + runs.back().bytes;
      ASSERT_EQ(std::memcmp(staging->buffer(1), expected->buffer(0), bytes), 0) << "unit " << unit;
      // And back, elsewhere; in the pool's own order.
      for (PoolRun& run : runs) run.offset = random() % ((bytes_.size() - run.bytes) / unit) * unit;
      ASSERT_TRUE(staging->Read(0, runs, KeyOrder::kBySlot).ok());
      ASSERT_TRUE(staging->Wait(0).ok());
      const std::vector<PoolRun> one = {runs[runs.size() / 2]};
      ASSERT_TRUE(staging->Write(1, one).ok());
      ASSERT_TRUE(staging->Wait(1).ok());
      std::memcpy(bytes_.data() + one[0].offset, staging->buffer(1) + one[0].at, one[0].bytes);
      ASSERT_EQ(Contents(), bytes_);
    }
  }
}

TEST_P(CudaPoolTest, ChecksumsAreTheHostsInBothOrders) {
  Fill();
  const std::vector<BlockId> blocks = {7, 0, 11, 3, 3};
  for (const KeyOrder order : {KeyOrder::kBySlot, KeyOrder::kByElement}) {
    for (const StepOrder steps : {StepOrder::kBehind, StepOrder::kBeside}) {
      std::vector<uint64_t> ours(blocks.size()), expected(blocks.size());
      ASSERT_TRUE(pool_->Checksums(blocks, order, steps, ours).ok());
      ASSERT_TRUE(host_.Checksums(blocks, order, steps, expected).ok());
      EXPECT_EQ(ours, expected);
    }
  }
}

TEST_P(CudaPoolTest, ZeroesWhatTheHostWould) {
  Fill();
  const std::vector<BlockId> some = {2, 9}, whole = {4};
  for (PoolMemory* pool : {static_cast<PoolMemory*>(pool_.get()), static_cast<PoolMemory*>(&host_)}) {
    ASSERT_TRUE(pool->Zero(some, 5, StepOrder::kBeside).ok());
    ASSERT_TRUE(pool->Zero(whole, 0, StepOrder::kBehind).ok());
  }
  EXPECT_EQ(Contents(), bytes_);
}

TEST_P(CudaPoolTest, BlocksOutsideAreRefused) {
  const BlockId block = kBlocks;
  uint64_t checksum;
  EXPECT_EQ(pool_->Zero({&block, 1}, 0, StepOrder::kBeside).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(pool_->Checksums({&block, 1}, KeyOrder::kBySlot, StepOrder::kBeside, {&checksum, 1}).code(),
            absl::StatusCode::kOutOfRange);
}

// A step that is enqueued and has not run: what it writes is what leaves the pool.
TEST_P(CudaPoolTest, WhatLeavesThePoolIsWhatTheStepsBeforeWrote) {
  const auto staging = pool_->MakeStaging(StagingPlace::kHost, 1, bytes_.size()).value();
  const BlockId block = 1;
  uint64_t checksum = 0, expected = 0;
  host_.Zero({&block, 1}, 0, StepOrder::kBehind).IgnoreError();
  std::fill(bytes_.begin(), bytes_.end(), std::byte{0x5a});
  ASSERT_TRUE(host_.Checksums({&block, 1}, KeyOrder::kBySlot, StepOrder::kBehind, {&expected, 1}).ok());
  std::vector<device::Stream> compute(pool_->ranks());
  for (size_t rank = 0; rank < pool_->ranks(); ++rank) {
    ASSERT_TRUE(device::Use(static_cast<int>(rank)).ok());
    compute[rank] = device::Stream::Create().value();
    ASSERT_TRUE(compute[rank].Fill(pool_->rank_memory(rank).data(), 0x5a, pool_->rank_memory(rank).size()).ok());
    ASSERT_TRUE(pool_->RecordStep(rank, compute[rank]).ok());
  }
  EXPECT_EQ(pool_->rank_memory(0)[0], std::byte{0}) << "the step must not have run yet";
  const PoolRun all{0, bytes_.size(), 0};
  ASSERT_TRUE(staging->Read(0, {&all, 1}, KeyOrder::kBySlot).ok());
  ASSERT_TRUE(staging->Wait(0).ok());
  EXPECT_EQ(std::memcmp(staging->buffer(0), bytes_.data(), bytes_.size()), 0);

  for (size_t rank = 0; rank < pool_->ranks(); ++rank) {
    ASSERT_TRUE(compute[rank].Fill(pool_->rank_memory(rank).data(), 0, pool_->rank_memory(rank).size()).ok());
    ASSERT_TRUE(compute[rank].Fill(pool_->rank_memory(rank).data(), 0x5a, pool_->rank_memory(rank).size()).ok());
    ASSERT_TRUE(pool_->RecordStep(rank, compute[rank]).ok());
  }
  ASSERT_TRUE(pool_->Checksums({&block, 1}, KeyOrder::kBySlot, StepOrder::kBehind, {&checksum, 1}).ok());
  EXPECT_EQ(checksum, expected);
  for (size_t rank = 0; rank < pool_->ranks(); ++rank) {
    ASSERT_TRUE(compute[rank].Fill(pool_->rank_memory(rank).data(), 0x11, pool_->rank_memory(rank).size()).ok());
    ASSERT_TRUE(pool_->RecordStep(rank, compute[rank]).ok());
  }
  ASSERT_TRUE(pool_->Zero({&block, 1}, 0, StepOrder::kBehind).ok());
  for (const device::Stream& stream : compute) ASSERT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(pool_->rank_memory(0)[pool_->rank_layout().BytesPerBlock()], std::byte{0}) << "zeroed behind the step";
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaPoolTest, ::testing::Values(1, 2, 4));

TEST(CudaPool, RefusesWhatTheEngineCannotDivideOrRead) {
  stand_in::SetDeviceCount(4);
  const auto refusal = [](const KvLayout& layout, int devices) {
    return StatusMessage(CudaPool::Create(layout, 4, Devices(devices)).status());
  };
  EXPECT_THAT(refusal(kLayout, 3), HasSubstr("4 KV heads do not divide among 3"));
  KvLayout other = kLayout;
  other.key_order = KeyOrder::kByElement;
  EXPECT_THAT(refusal(other, 1), HasSubstr("slot by slot"));
  other = kLayout;
  other.dtype = DType::kI8;
  EXPECT_THAT(refusal(other, 1), HasSubstr("int8"));
  EXPECT_THAT(refusal(kLayout, 0), HasSubstr("0 devices"));
  EXPECT_EQ(CudaPool::Create(kLayout, 1 << 20, Devices(1)).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace baton
