#pragma once

// baton.v1.AdminService.

#include "baton/v1/admin.grpc.pb.h"
#include "common/routing/admission_queue.h"
#include "services/router/metrics.h"
#include "services/router/worker_directory.h"

namespace baton {

class AdminServiceImpl final : public v1::AdminService::CallbackService {
 public:
  AdminServiceImpl(const WorkerDirectory* directory, const AdmissionQueue* queue, RouterMetrics* metrics)
      : directory_(directory), queue_(queue), metrics_(metrics) {}

  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context, const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context, const v1::DrainWorkerRequest* request,
                                        v1::DrainWorkerResponse* response) override;

 private:
  const WorkerDirectory* const directory_;
  const AdmissionQueue* const queue_;
  RouterMetrics* const metrics_;
};

}  // namespace baton
