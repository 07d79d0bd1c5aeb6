#pragma once

// The deployment that a bench talks to: the one that --router names, or one that it starts for itself.

#include <memory>

#include "absl/status/statusor.h"
#include "services/cli/bench/bench.h"
#include "services/cli/bench/deployment.h"
#include "services/cli/bench/deployment_load.h"

namespace baton::cli {

class Service {
 public:
  // `own` is what to start where no router is named; its model and weights come from the context.
  static absl::StatusOr<std::unique_ptr<Service>> For(BenchContext& context, DeploymentOptions own);
  // Always starts `own`: for benches that compare deployments.
  static absl::StatusOr<std::unique_ptr<Service>> Start(BenchContext& context, DeploymentOptions own);

  const DeploymentLoad& load() const { return *load_; }

 private:
  std::unique_ptr<Deployment> deployment_;  // null for a named router
  std::unique_ptr<DeploymentLoad> load_;
};

}  // namespace baton::cli
