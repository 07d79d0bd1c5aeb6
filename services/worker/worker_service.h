#pragma once

// baton.internal.v1.WorkerService: identity, state, text assets, drain.

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "services/worker/runtime.h"
#include "services/worker/state_publisher.h"

namespace baton {

class WorkerServiceImpl final : public internal::v1::WorkerService::CallbackService {
 public:
  // `drain` is called for every Drain; it must return at once.
  WorkerServiceImpl(internal::v1::Identity identity, std::function<void()> drain)
      : publisher_(std::move(identity)), drain_(std::move(drain)) {}

  void SetReady(std::shared_ptr<WorkerRuntime> runtime, internal::v1::Identity identity,
                StatePublisher::AddLoad add_load);
  StatePublisher& publisher() { return publisher_; }

  grpc::ServerWriteReactor<internal::v1::WatchStateResponse>* WatchState(
      grpc::CallbackServerContext* context, const internal::v1::WatchStateRequest* request) override;
  grpc::ServerUnaryReactor* GetModelText(grpc::CallbackServerContext* context,
                                         const internal::v1::GetModelTextRequest* request,
                                         internal::v1::GetModelTextResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const internal::v1::DrainRequest* request,
                                  internal::v1::DrainResponse* response) override;

 private:
  StatePublisher publisher_;
  const std::function<void()> drain_;
  absl::Mutex mutex_;
  std::shared_ptr<WorkerRuntime> runtime_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
