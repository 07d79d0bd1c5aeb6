#include "services/cli/bench/service.h"

#include "common/base/status.h"

namespace baton::cli {

absl::StatusOr<std::unique_ptr<Service>> Service::For(BenchContext& context, DeploymentOptions own) {
  if (!context.options().has_router) return Start(context, std::move(own));
  auto service = std::make_unique<Service>();
  BATON_ASSIGN_OR_RETURN(service->load_, DeploymentLoad::Connect(context.options().connection));
  return service;
}

absl::StatusOr<std::unique_ptr<Service>> Service::Start(BenchContext& context, DeploymentOptions own) {
  BATON_ASSIGN_OR_RETURN(own.model, context.ModelPath());
  own.worker_flags.insert(own.worker_flags.end(), {"--model_name", "bench", "--weights", context.options().weights,
                                                   "--kv_gib", context.Pick(std::string("0.5"), std::string("0.03")),
                                                   "--bandwidth_probe=false", "--engine_probe=false"});
  if (context.options().threads > 0) {
    own.worker_flags.insert(own.worker_flags.end(), {"--threads", std::to_string(context.options().threads)});
  }
  context.Step("starting processes");
  auto service = std::make_unique<Service>();
  BATON_ASSIGN_OR_RETURN(service->deployment_, Deployment::Start(own));
  ConnectionOptions connection;
  connection.router = service->deployment_->router();
  BATON_ASSIGN_OR_RETURN(service->load_, DeploymentLoad::Connect(connection));
  return service;
}

}  // namespace baton::cli
