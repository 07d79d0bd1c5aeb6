#pragma once

// baton.internal.v1.DecodeService.

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/decode.grpc.pb.h"
#include "services/decode/decode_context.h"
#include "services/worker/worker_main.h"

namespace baton {

// Flags of a decode worker beside those of every worker.
struct DecodeConfig {
  std::string control_host = "127.0.0.1";
  uint16_t control_port = 0;
  double lease_seconds = 10;
  double max_leased_share = 0.5;
  double max_quarantined_share = 0.25;
  void AddTo(Flags& flags);
};

class DecodeServiceImpl final : public internal::v1::DecodeService::CallbackService, public WorkerRole {
 public:
  DecodeServiceImpl(const DecodeConfig& decode, const WorkerConfig& config, const Logger& log, Metrics& metrics,
                    WorkerMetrics& worker_metrics);

  grpc::Service* service() override { return this; }
  absl::Status Attach(const std::shared_ptr<WorkerRuntime>& runtime) override;
  void StopAccepting() override;
  uint32_t open_work() const override;
  bool unused() const override;
  uint32_t max_lease_blocks() const override;
  void AddTo(internal::v1::Load* load) const override;
  bool must_restart() const override;

  grpc::ServerBidiReactor<internal::v1::DecodeRequest, internal::v1::DecodeResponse>* Decode(
      grpc::CallbackServerContext* context) override;

 private:
  const DecodeConfig decode_;
  const WorkerConfig config_;
  const Logger& log_;
  DecodeMetrics metrics_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<DecodeContext> context_ ABSL_GUARDED_BY(mutex_);  // set by Attach
  bool accepting_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton
