#include "common/kv/host_pool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/kv/key_order.h"

namespace baton {
namespace {

constexpr uint64_t kAlignment = 256;

void ZeroSlots(const KvLayout& layout, std::byte* memory, BlockId block, uint32_t used) {
  const uint64_t bytes = BlockOf(layout.dtype).bytes;
  const uint32_t unused = layout.block_size - used;
  for (uint32_t layer = 0; layer < layout.layers; ++layer) {
    for (uint32_t kv = 0; kv < 2; ++kv) {
      for (uint32_t head = 0; head < layout.kv_heads; ++head) {
        std::byte* piece = memory + layout.HeadOffset(block, layer, kv, head);
        if (kv == 0 && layout.key_order == KeyOrder::kByElement) {
          for (uint32_t element = 0; element < layout.head_dim; ++element) {
            std::memset(piece + (element * layout.block_size + used) * bytes, 0, unused * bytes);
          }
        } else {
          std::memset(piece + used * layout.head_dim * bytes, 0, unused * layout.head_dim * bytes);
        }
        if (layout.has_scales()) {
          std::memset(piece + layout.HeadBytes() - unused * sizeof(float), 0, unused * sizeof(float));
        }
      }
    }
  }
}

class HostStaging final : public PoolStaging {
 public:
  HostStaging(const KvLayout& layout, std::span<std::byte> memory, size_t buffers, uint64_t bytes)
      : layout_(layout), memory_(memory), stride_((bytes + kAlignment - 1) / kAlignment * kAlignment) {
    buffers_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, std::max(kAlignment, buffers * stride_))));
  }
  bool ok() const { return buffers_ != nullptr; }

  std::byte* buffer(size_t index) const override { return buffers_.get() + index * stride_; }

  absl::Status Read(size_t index, std::span<const PoolRun> runs, KeyOrder order) override {
    for (const PoolRun& run : runs) {
      if (order == layout_.key_order) {
        std::memcpy(buffer(index) + run.at, memory_.data() + run.offset, run.bytes);
      } else {
        ReadInOrder(run, order, buffer(index) + run.at);
      }
    }
    return absl::OkStatus();
  }
  absl::Status Write(size_t index, std::span<const PoolRun> runs) override {
    for (const PoolRun& run : runs) std::memcpy(memory_.data() + run.offset, buffer(index) + run.at, run.bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Done(size_t) override { return true; }
  absl::Status Wait(size_t) override { return absl::OkStatus(); }
  absl::Status MakeWait(const device::Stream&, size_t) override { return FailedPrecondition("the pool has no device"); }

 private:
  // Block by block through a copy: a run may begin and end anywhere.
  void ReadInOrder(const PoolRun& run, KeyOrder order, std::byte* out) {
    const uint64_t block_bytes = layout_.BytesPerBlock();
    block_.resize(block_bytes);
    for (uint64_t done = 0; done < run.bytes;) {
      const uint64_t block = (run.offset + done) / block_bytes, inside = (run.offset + done) % block_bytes;
      const uint64_t bytes = std::min(block_bytes - inside, run.bytes - done);
      CopyBlockInOrder(layout_, order, memory_.data() + block * block_bytes, block_.data());
      std::memcpy(out + done, block_.data() + inside, bytes);
      done += bytes;
    }
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  const KvLayout layout_;
  const std::span<std::byte> memory_;
  const uint64_t stride_;
  std::unique_ptr<std::byte, Free> buffers_;
  std::vector<std::byte> block_;
};

}  // namespace

HostPool::HostPool(const KvLayout& layout, std::span<std::byte> memory)
    : layout_(layout),
      blocks_(layout.BytesPerBlock() == 0 ? 0 : static_cast<uint32_t>(memory.size() / layout.BytesPerBlock())),
      memory_(memory) {}

absl::Status HostPool::Checksums(std::span<const BlockId> ids, KeyOrder order, StepOrder,
                                 std::span<uint64_t> checksums) {
  const uint64_t block_bytes = layout_.BytesPerBlock();
  std::vector<std::byte> reordered(order == layout_.key_order ? 0 : block_bytes);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= blocks_) return OutOfRange("block %d of a pool of %d", ids[i], blocks_);
    const std::byte* block = memory_.data() + ids[i] * block_bytes;
    if (!reordered.empty()) {
      CopyBlockInOrder(layout_, order, block, reordered.data());
      block = reordered.data();
    }
    checksums[i] = Checksum({block, block_bytes});
  }
  return absl::OkStatus();
}

absl::Status HostPool::Zero(std::span<const BlockId> ids, uint32_t used, StepOrder) {
  for (const BlockId id : ids) {
    if (id >= blocks_) return OutOfRange("block %d of a pool of %d", id, blocks_);
    ZeroSlots(layout_, memory_.data(), id, used);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PoolStaging>> HostPool::MakeStaging(StagingPlace place, size_t buffers, uint64_t bytes) {
  if (place != StagingPlace::kHost)
    return FailedPrecondition("the KV pool lies in host memory, no device has buffers for it");
  auto staging = std::make_unique<HostStaging>(layout_, memory_, buffers, bytes);
  if (!staging->ok()) return ResourceExhausted("no %d staging buffers of %d bytes", buffers, bytes);
  return staging;
}

}  // namespace baton
