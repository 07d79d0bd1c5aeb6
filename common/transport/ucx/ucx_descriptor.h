#pragma once

// What a target tells those who may write to its pool.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton {

struct UcxDescriptor {
  uint64_t instance = 0;       // random, of one transport object
  std::string worker_address;  // UCX's
  std::string remote_key;      // UCX's packed key of the pool; empty: no peer reaches it, puts must be messages
  uint64_t pool_address = 0;   // in the target's address space
  uint64_t pool_bytes = 0;
  bool refuse_one_sided = false;  // the target wants to be asked about every write
};

std::string EncodeUcxDescriptor(const UcxDescriptor& descriptor);
// INVALID_ARGUMENT for anything that is not a whole one: UCX itself trusts what it unpacks, so a checksum guards it.
absl::StatusOr<UcxDescriptor> DecodeUcxDescriptor(std::string_view bytes);

}  // namespace baton
