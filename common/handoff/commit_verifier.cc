#include "common/handoff/commit_verifier.h"

#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "common/base/hash.h"
#include "common/base/status.h"

namespace baton {

absl::Status VerifyCommit(const Lease& lease, const CommitMessage& commit, const KvLayout& layout,
                          std::span<const std::byte> memory) {
  if (commit.token_count != lease.prompt_tokens) {
    return FailedPrecondition("commit of %d prompt tokens, the lease is for %d", commit.token_count,
                              lease.prompt_tokens);
  }
  if (commit.checksums.size() != lease.prompt_blocks.size()) {
    return FailedPrecondition("commit has %d checksums, the lease has %d prompt blocks", commit.checksums.size(),
                              lease.prompt_blocks.size());
  }
  if (commit.first_tokens.size() != lease.choices) {
    return FailedPrecondition("commit has %d first tokens, the lease has %d choices", commit.first_tokens.size(),
                              lease.choices);
  }
  absl::flat_hash_set<uint32_t> choices;
  for (const FirstToken& token : commit.first_tokens) {
    if (token.id < 0) return FailedPrecondition("first token of choice %d is %d", token.choice, token.id);
    if (!choices.insert(token.choice).second) {
      return FailedPrecondition("commit has two first tokens for choice %d", token.choice);
    }
  }
  const uint64_t block_bytes = layout.BytesPerBlock();
  for (size_t i = 0; i < lease.prompt_blocks.size(); ++i) {
    const uint64_t actual = Checksum(memory.subspan(lease.prompt_blocks[i] * block_bytes, block_bytes));
    if (actual != commit.checksums[i]) {
      return DataLoss("checksum of leased block %d (pool block %d) is %016x, the writer's was %016x", i,
                      lease.prompt_blocks[i], actual, commit.checksums[i]);
    }
  }
  return absl::OkStatus();
}

std::span<std::byte> BlockBytes(const KvLayout& layout, std::span<std::byte> memory, BlockId block) {
  return memory.subspan(block * layout.BytesPerBlock(), layout.BytesPerBlock());
}

void ZeroUnusedSlots(const KvLayout& layout, std::span<std::byte> memory, BlockId block, uint32_t used) {
  const uint64_t bytes = BlockOf(layout.dtype).bytes;
  const uint32_t unused = layout.block_size - used;
  for (uint32_t layer = 0; layer < layout.layers; ++layer) {
    for (uint32_t kv = 0; kv < 2; ++kv) {
      for (uint32_t head = 0; head < layout.kv_heads; ++head) {
        std::byte* piece = memory.data() + layout.HeadOffset(block, layer, kv, head);
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

}  // namespace baton
