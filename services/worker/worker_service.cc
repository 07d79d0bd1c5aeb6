#include "services/worker/worker_service.h"

#include "common/base/status.h"
#include "common/base/version.h"
#include "common/rpc/convert.h"
#include "common/rpc/status.h"

namespace baton {

void WorkerServiceImpl::SetReady(std::shared_ptr<WorkerRuntime> runtime, internal::v1::Identity identity,
                                 StatePublisher::AddLoad add_load) {
  {
    absl::MutexLock lock(&mutex_);
    runtime_ = runtime;
  }
  publisher_.SetReady(std::move(runtime), std::move(identity), std::move(add_load));
}

grpc::ServerWriteReactor<internal::v1::WatchStateResponse>* WorkerServiceImpl::WatchState(
    grpc::CallbackServerContext*, const internal::v1::WatchStateRequest* request) {
  auto stream = StatePublisher::Stream::Create();
  if (request->protocol_version() != kInternalProtocolVersion) {
    stream->End(ToGrpc(FailedPrecondition("router speaks internal protocol %d, this worker %d",
                                          request->protocol_version(), kInternalProtocolVersion)));
    return stream.get();
  }
  stream->SetOnGone([this, raw = stream.get()] { publisher_.Unwatch(raw); });
  publisher_.Watch(stream);
  return stream.get();
}

grpc::ServerUnaryReactor* WorkerServiceImpl::GetModelText(grpc::CallbackServerContext* context,
                                                          const internal::v1::GetModelTextRequest*,
                                                          internal::v1::GetModelTextResponse* response) {
  auto* reactor = context->DefaultReactor();
  std::shared_ptr<WorkerRuntime> runtime;
  {
    absl::MutexLock lock(&mutex_);
    runtime = runtime_;
  }
  if (!runtime) {
    reactor->Finish(ToGrpc(FailedPrecondition("the model is still loading")));
    return reactor;
  }
  ToProto(runtime->text, response);
  const model::GenerationDefaults& defaults = runtime->model.generation;
  auto* out = response->mutable_defaults();
  if (defaults.temperature) out->set_temperature(static_cast<float>(*defaults.temperature));
  if (defaults.top_p) out->set_top_p(static_cast<float>(*defaults.top_p));
  if (defaults.top_k) out->set_top_k(static_cast<uint32_t>(*defaults.top_k));
  if (defaults.min_p) out->set_min_p(static_cast<float>(*defaults.min_p));
  if (defaults.repetition_penalty) out->set_repetition_penalty(static_cast<float>(*defaults.repetition_penalty));
  out->mutable_eos_token_ids()->Assign(runtime->model.eos_ids.begin(), runtime->model.eos_ids.end());
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* WorkerServiceImpl::Drain(grpc::CallbackServerContext* context,
                                                   const internal::v1::DrainRequest*, internal::v1::DrainResponse*) {
  drain_();
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace baton
