#pragma once

// Router and workers of this build as processes on this machine, for benches that compare deployments. They end with
// this object, and with this process however it ends.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::cli {

struct ProcessOptions {
  std::vector<int> cores;          // to run on; empty: all
  std::vector<std::string> flags;  // beside those of the deployment
};

struct DeploymentOptions {
  std::string model;
  std::vector<ProcessOptions> prefill, decode;
  ProcessOptions router;
  std::vector<std::string> worker_flags;
};

class Deployment {
 public:
  // Starts the programs that lie beside this one and waits until every worker is ready and the router sees them. An
  // error carries the last line that the process wrote.
  static absl::StatusOr<std::unique_ptr<Deployment>> Start(const DeploymentOptions& options);
  ~Deployment();

  const std::string& router() const { return router_; }  // address

 private:
  class Process;
  Deployment();

  std::vector<std::unique_ptr<Process>> processes_;
  std::string router_;
};

}  // namespace baton::cli
