#pragma once

// A prefill worker's and a decode worker's ends of a handoff in one process: local transport, real control connections
// on port 0, tiny blocks.

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/handoff/receiver.h"
#include "common/handoff/sender.h"
#include "common/kv/block_pool.h"
#include "common/kv/host_pool.h"
#include "common/transport/local/local_transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contract/control_recorder.h"
#include "tests/fakes/held_transport.h"

namespace baton {

// 1,024 bytes a block: 2 layers x (k, v) x 1 head x 16 slots x 4 x f32.
inline constexpr KvLayout kTinyLayout{.dtype = DType::kF32,
                                      .layers = 2,
                                      .kv_heads = 1,
                                      .head_dim = 4,
                                      .block_size = 16,
                                      .key_order = KeyOrder::kByElement};
inline constexpr NumericsHash kNumerics{77};

// True once `condition` holds; polls, for state that nobody signals.
inline bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + kTestPatience;
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

inline void FillRandom(std::span<std::byte> memory, uint32_t seed) {
  std::mt19937 random(seed);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
}

struct DecodeEnd {
  explicit DecodeEnd(std::shared_ptr<LocalNetwork> network, bool message_puts = false, ReceiverOptions options = {},
                     uint32_t blocks = 64, NumericsHash numerics = kNumerics, KvLayout kv_layout = kTinyLayout)
      : layout(kv_layout),
        transport(MakeLocalTransport(std::move(network), message_puts)),
        memory(transport->AllocatePool(blocks * layout.BytesPerBlock()).value()),
        pool_memory(layout, memory),
        pool(blocks) {
    receiver =
        HandoffReceiver::Start(options, numerics, incarnation, &pool, &pool_memory, transport.get(), &clock).value();
  }

  absl::StatusOr<LeaseOffer> Reserve(uint32_t prompt_tokens, uint32_t pinned_blocks = 0, uint32_t choices = 1) {
    ReserveRequest request;
    request.prompt_tokens = prompt_tokens;
    request.pinned_blocks = pinned_blocks;
    request.choices = choices;
    request.on_end = [this](absl::StatusOr<CommittedHandoff> end) { ends.Add(std::move(end)); };
    return receiver->Reserve(std::move(request));
  }
  std::span<const std::byte> Block(BlockId block) const {
    return memory.subspan(block * layout.BytesPerBlock(), layout.BytesPerBlock());
  }
  // The only end so far, or the last of several.
  absl::StatusOr<CommittedHandoff> WaitForEnd(size_t count = 1) {
    if (!ends.WaitForCount(count)) return DeadlineExceeded("no end of a lease");
    return ends.values()[count - 1];
  }

  const KvLayout layout;
  const Incarnation incarnation{RandomU64()};
  FakeClock clock;
  std::unique_ptr<KvTransport> transport;
  std::span<std::byte> memory;
  HostPool pool_memory;
  BlockPool pool;
  Recorder<absl::StatusOr<CommittedHandoff>> ends;
  std::unique_ptr<HandoffReceiver> receiver;  // last: its threads use the rest
};

struct PrefillEnd {
  explicit PrefillEnd(std::shared_ptr<LocalNetwork> network, bool message_puts = false, uint32_t blocks = 64,
                      bool allow_mixed_numerics = false)
      : transport(MakeLocalTransport(std::move(network), message_puts)),
        memory(transport.AllocatePool(blocks * kTinyLayout.BytesPerBlock()).value()),
        pool_memory(kTinyLayout, memory) {
    FillRandom(memory, 5);
    ControlOptions options;
    options.connect_timeout = std::chrono::seconds(5);
    options.allow_mixed_numerics = allow_mixed_numerics;
    sender = HandoffSender::Create(options, "prefill", kNumerics, incarnation, &pool_memory, &transport, &clock);
  }

  std::shared_ptr<OutgoingHandoff> Begin(const LeaseOffer& offer) {
    return sender->Begin(offer, [this](const HandoffResult& result) { results.Add(result); });
  }
  HandoffResult WaitForResult(size_t count = 1) {
    if (!results.WaitForCount(count)) {
      ADD_FAILURE() << "no result of a handoff";
      return {};
    }
    return results.values()[count - 1];
  }
  std::span<const std::byte> Block(BlockId block) const {
    return memory.subspan(block * kTinyLayout.BytesPerBlock(), kTinyLayout.BytesPerBlock());
  }

  const Incarnation incarnation{RandomU64()};
  SteadyClock clock;
  HeldTransport transport;
  std::span<std::byte> memory;
  HostPool pool_memory;
  Recorder<HandoffResult> results;
  std::unique_ptr<HandoffSender> sender;
};

inline std::vector<BlockId> Blocks(std::initializer_list<BlockId> blocks) { return blocks; }

// Blocks first, first + 1, ...
inline std::vector<BlockId> BlockRange(BlockId first, uint32_t count) {
  std::vector<BlockId> blocks(count);
  for (uint32_t i = 0; i < count; ++i) blocks[i] = first + i;
  return blocks;
}

// Equality of the used slots of a block that holds `used` tokens on both sides, and zeros beyond on the decode side.
inline void ExpectSameKv(const PrefillEnd& prefill, BlockId source, const DecodeEnd& decode, BlockId target,
                         uint32_t used = 16) {
  const uint32_t head_dim = kTinyLayout.head_dim, numbers = 16 * head_dim;
  for (uint32_t layer = 0; layer < kTinyLayout.layers; ++layer) {
    for (uint32_t kv = 0; kv < 2; ++kv) {
      const uint64_t offset = kTinyLayout.HeadOffset(0, layer, kv, 0);
      const auto* from = reinterpret_cast<const uint32_t*>(prefill.Block(source).subspan(offset).data());
      const auto* to = reinterpret_cast<const uint32_t*>(decode.Block(target).subspan(offset).data());
      for (uint32_t i = 0; i < numbers; ++i) {
        const uint32_t slot = kv == 0 ? i % 16 : i / head_dim;
        ASSERT_EQ(to[i], slot < used ? from[i] : 0) << "number " << i << " of block " << source << " -> " << target;
      }
    }
  }
}

}  // namespace baton
