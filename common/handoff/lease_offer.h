#pragma once

// What a decode worker promises one handoff, and how that promise travels through the router as opaque bytes.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/kv/layout.h"
#include "common/transport/control_messages.h"

namespace baton {

// How a prefill worker reaches a decode worker; the same for every lease of one process start.
struct TargetDescriptor {
  Incarnation incarnation;
  LayoutHash layout_hash;
  NumericsHash numerics_hash;
  KeyOrder key_order = KeyOrder::kBySlot;  // in which the target wants keys, and checksums over them
  bool allow_mixed_numerics = false;
  uint64_t secret = 0;
  std::string control_host;
  uint16_t control_port = 0;
  std::string transport;             // catalogue name
  std::string transport_descriptor;  // KvTransport::Describe
};
std::string Encode(const TargetDescriptor& descriptor);
absl::StatusOr<TargetDescriptor> DecodeTargetDescriptor(std::string_view bytes);

struct LeaseOffer {
  LeaseKey key;
  uint32_t first_block = 0;     // prompt block that blocks[0] stores: those before are prefix hits on the target
  std::vector<BlockId> blocks;  // prompt blocks first_block .. ceil(prompt / block_size) - 1 in the target's pool
  std::string target;           // encoded TargetDescriptor
};
std::string Encode(const LeaseOffer& offer);
absl::StatusOr<LeaseOffer> DecodeLeaseOffer(std::string_view bytes);

}  // namespace baton
