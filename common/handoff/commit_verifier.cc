#include "common/handoff/commit_verifier.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"

namespace baton {

absl::Status VerifyCommit(const Lease& lease, const CommitMessage& commit, PoolMemory& memory) {
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
  std::vector<uint64_t> actual(lease.prompt_blocks.size());
  BATON_RETURN_IF_ERROR(memory.Checksums(lease.prompt_blocks, memory.layout().key_order, StepOrder::kBeside, actual));
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] != commit.checksums[i]) {
      return DataLoss("checksum of leased block %d (pool block %d) is %016x, the writer's was %016x", i,
                      lease.prompt_blocks[i], actual[i], commit.checksums[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace baton
