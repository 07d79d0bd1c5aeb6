#pragma once

// baton.internal.v1.PrefillService.

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/prefill.grpc.pb.h"
#include "services/prefill/prefill_context.h"
#include "services/worker/worker_main.h"

namespace baton {

class PrefillServiceImpl final : public internal::v1::PrefillService::CallbackService, public WorkerRole {
 public:
  PrefillServiceImpl(const WorkerConfig& config, const Logger& log, Metrics& metrics, WorkerMetrics& worker_metrics);

  grpc::Service* service() override { return this; }
  absl::Status Attach(const std::shared_ptr<WorkerRuntime>& runtime) override;
  void StopAccepting() override;
  uint32_t open_work() const override;
  bool unused() const override;
  uint32_t max_lease_blocks() const override { return 0; }
  void AddTo(internal::v1::Load* load) const override;

  grpc::ServerBidiReactor<internal::v1::PrefillRequest, internal::v1::PrefillResponse>* Prefill(
      grpc::CallbackServerContext* context) override;

 private:
  const WorkerConfig config_;
  const Logger& log_;
  PrefillMetrics metrics_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<PrefillContext> context_ ABSL_GUARDED_BY(mutex_);  // set by Attach
  bool accepting_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton
