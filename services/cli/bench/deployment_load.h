#pragma once

// Requests to a running deployment, through its router, as clients send them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/bench/trace.h"
#include "services/cli/bench/workload.h"
#include "services/cli/client.h"

namespace baton::cli {

class DeploymentLoad {
 public:
  // Asks the router for its model. FAILED_PRECONDITION when it serves none or several, or when its model has no ready
  // workers.
  static absl::StatusOr<std::unique_ptr<DeploymentLoad>> Connect(const ConnectionOptions& options);

  // An open loop: every request is sent at its arrival, whatever became of those before; waits for all. A thread each.
  std::vector<RequestTrace> Run(std::span<const BenchRequest> requests) const;
  // One request; `stream` false waits for the whole answer, which then carries its times only at its end.
  RequestTrace RunOne(const BenchRequest& request, bool stream) const;

  uint32_t vocab() const { return vocab_; }
  uint32_t max_model_len() const { return max_model_len_; }

 private:
  explicit DeploymentLoad(ConnectionOptions options) : options_(std::move(options)) {}

  const ConnectionOptions options_;
  uint32_t vocab_ = 0, max_model_len_ = 0;
};

}  // namespace baton::cli
