#pragma once

// The life of a worker process: flags, port, load, ready, wait, drain, exit. The two programs differ in the service
// they put between.

#include <grpcpp/impl/service_type.h>

#include <functional>
#include <memory>
#include <string>

#include "baton/internal/v1/worker.pb.h"
#include "services/worker/config.h"
#include "services/worker/metrics.h"
#include "services/worker/runtime.h"

namespace baton {

// What a role adds. The gRPC service exists from the start and refuses work with UNAVAILABLE until Attach.
class WorkerRole {
 public:
  virtual ~WorkerRole() = default;
  virtual grpc::Service* service() = 0;
  // Once, when the model is loaded, before work arrives.
  virtual absl::Status Attach(const std::shared_ptr<WorkerRuntime>& runtime) = 0;
  // No new work from now on: UNAVAILABLE.
  virtual void StopAccepting() = 0;
  // Work of this role that has not ended.
  virtual uint32_t open_work() const = 0;
  // True when no call holds what Attach made any more: the engine and the handoffs have let go of theirs too.
  virtual bool unused() const = 0;
  // KV blocks of the largest lease that a handoff may get; 0 when the role takes none. After Attach.
  virtual uint32_t max_lease_blocks() const = 0;
  // Adds this role's handoffs to what routers are told; from any thread. After Attach.
  virtual void AddTo(internal::v1::Load* load) const = 0;
  // True when the process must be replaced (quarantine above its share); polled.
  virtual bool must_restart() const { return false; }
};

struct WorkerProgram {
  std::string name;  // "baton-prefill"
  std::string description;
  std::string readiness;  // gRPC service whose health means readiness
  internal::v1::Role role;
  std::function<void(Flags&)> add_flags;  // of the role
  std::function<std::unique_ptr<WorkerRole>(const WorkerConfig&, const Logger&, Metrics&, WorkerMetrics&)> make_role;
};

// Exit status of the process.
int RunWorker(const WorkerProgram& program, int argc, char** argv);

}  // namespace baton
