#pragma once

// An engine in this process, as a worker has one, for benches of the engine alone.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/engine/cpu_weights.h"
#include "common/engine/engine.h"
#include "common/kv/block_pool.h"
#include "services/cli/bench/trace.h"
#include "services/cli/bench/workload.h"

namespace baton::cli {

struct LocalEngineOptions {
  EngineOptions engine;
  int threads = 0;
  uint32_t pool_tokens = 4096;  // room of the KV pool
};

class LocalEngine {
 public:
  static absl::StatusOr<std::unique_ptr<LocalEngine>> Create(std::shared_ptr<const CpuWeights> weights,
                                                             const LocalEngineOptions& options);
  ~LocalEngine();

  // Submits each request at its arrival and waits until all have ended; greedy.
  std::vector<RequestTrace> Run(std::span<const BenchRequest> requests);

  EngineLoad load() const;
  uint32_t vocab() const;
  // Drops cached prefixes.
  void DropCache();
  uint32_t pool_blocks() const;

  // Of the last Run: most sequences in a step, and the mean share of the pool's slots that held tokens of running
  // sequences, over steps; what prefix hits share counts for each.
  uint32_t most_sequences() const;
  double mean_used_share() const;

 private:
  struct Impl;
  explicit LocalEngine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One request that arrives at once.
RequestTrace RunOne(LocalEngine& engine, std::vector<TokenId> prompt, uint32_t max_tokens);

}  // namespace baton::cli
