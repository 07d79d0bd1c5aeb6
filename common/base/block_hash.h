#pragma once

// Identity of full KV blocks: hash i covers tokens [0, (i + 1) * block_size) through the chain, so that equal hashes
// mean equal prefixes. Used by the prefix cache of a worker and by the router's index over all workers.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/hash.h"
#include "common/base/ids.h"

namespace baton {

// One hash for each full block of `tokens`. Requests with different `cache_salt` share nothing.
std::vector<Hash128> HashBlockChain(std::span<const TokenId> tokens, uint32_t block_size, std::string_view cache_salt);

// Appends to `chain`, the chain of a prefix of `tokens`, the hashes of the full blocks it lacks.
void ExtendBlockChain(std::span<const TokenId> tokens, uint32_t block_size, std::string_view cache_salt,
                      std::vector<Hash128>* chain);

}  // namespace baton
