#pragma once

// What travels on the control connection, one frame a message: u32 length of what follows, u8 type, body
// (common/base/wire.h). control_codec.h turns one into the other.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"

namespace baton {

inline constexpr uint32_t kControlProtocolVersion = 2;
inline constexpr uint32_t kMaxControlFrameBytes = 16u << 20;

// First message in both directions. Unequal versions or hashes refuse each other by name; but unequal numerics do not
// when both sides allow them.
struct ControlHello {
  uint32_t protocol_version = kControlProtocolVersion;
  Incarnation incarnation;
  LayoutHash layout_hash;
  NumericsHash numerics_hash;
  uint64_t secret = 0;  // writer -> target: the target's secret as its descriptor gave it
  std::string name;     // for logs: "baton-prefill 10.0.0.3:9102"
  std::string host_id;  // boot id + network namespace: equal means the same host, where end of file proves an exit
  bool allow_mixed_numerics = false;
};

// This process's ControlHello::host_id.
std::string LocalHostId();

struct LeaseKey {
  LeaseId lease;
  uint64_t generation = 0;
  uint64_t secret = 0;
  friend bool operator==(const LeaseKey&, const LeaseKey&) = default;
};

// Writer -> target, before the first put of a lease. A lease that was never attached has no writer and may be freed at
// once.
struct AttachMessage {
  LeaseKey key;
};

struct FirstToken {
  uint32_t choice = 0;  // the choice's index
  TokenId id = 0;
  bool finished = false;  // ended by its first token: needs no decode
  friend bool operator==(const FirstToken&, const FirstToken&) = default;
};

struct CommitMessage {
  LeaseKey key;
  uint32_t token_count = 0;         // prompt tokens whose KV was written or was already there
  std::vector<uint64_t> checksums;  // one for each leased prompt block, in order
  std::vector<FirstToken> first_tokens;
};

// No further write will come for this lease: discard it.
struct FenceMessage {
  LeaseKey key;
  std::string reason;
};

enum class LeaseAnswer : uint8_t {
  kAttached = 1,   // go ahead
  kCommitted = 2,  // verified; the sequences run
  kDiscarded = 3,  // expired, cancelled or fenced before: the blocks are the target's again
  kRefused = 4,    // unknown lease, wrong secret, generation, token count or checksum; `reason` says which
};

struct AnswerMessage {
  LeaseId lease;
  LeaseAnswer answer = LeaseAnswer::kRefused;
  std::string reason;
};

}  // namespace baton
