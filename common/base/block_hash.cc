#include "common/base/block_hash.h"

namespace baton {

std::vector<Hash128> HashBlockChain(std::span<const TokenId> tokens, uint32_t block_size, std::string_view cache_salt) {
  std::vector<Hash128> chain;
  ExtendBlockChain(tokens, block_size, cache_salt, &chain);
  return chain;
}

void ExtendBlockChain(std::span<const TokenId> tokens, uint32_t block_size, std::string_view cache_salt,
                      std::vector<Hash128>* chain) {
  if (chain->empty()) chain->reserve(tokens.size() / block_size);
  Hash128 parent = chain->empty() ? HashText(cache_salt, {0x6261746f6eULL, block_size}) : chain->back();
  for (size_t begin = chain->size() * block_size; begin + block_size <= tokens.size(); begin += block_size) {
    parent = HashBytes(std::as_bytes(tokens.subspan(begin, block_size)), parent);
    chain->push_back(parent);
  }
}

}  // namespace baton
