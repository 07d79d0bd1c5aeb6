#include "services/prefill/prefill_service.h"

#include "common/rpc/status.h"
#include "services/prefill/prefill_call.h"

namespace baton {

PrefillServiceImpl::PrefillServiceImpl(const WorkerConfig& config, const Logger& log, Metrics& metrics,
                                       WorkerMetrics& worker_metrics)
    : config_(config), log_(log), metrics_(metrics, worker_metrics, config.transport.name) {}

absl::Status PrefillServiceImpl::Attach(const std::shared_ptr<WorkerRuntime>& runtime) {
  auto context = std::make_shared<PrefillContext>();
  context->log = &log_;
  context->metrics = &metrics_;
  context->runtime = runtime;
  context->transport = std::string(runtime->transport->name());
  context->sender =
      HandoffSender::Create(config_.control, "baton-prefill " + config_.transport.bind_host, runtime->numerics,
                            runtime->incarnation, runtime->memory.get(), runtime->transport.get(), &runtime->clock);
  absl::MutexLock lock(&mutex_);
  context_ = std::move(context);
  accepting_ = true;
  return absl::OkStatus();
}

void PrefillServiceImpl::StopAccepting() {
  absl::MutexLock lock(&mutex_);
  accepting_ = false;
}

uint32_t PrefillServiceImpl::open_work() const {
  absl::MutexLock lock(&mutex_);
  return context_ ? context_->open.load() : 0;
}

void PrefillServiceImpl::AddTo(internal::v1::Load* load) const {
  load->set_handoffs_committed(metrics_.handoffs(HandoffOutcome::kCommitted));
  load->set_handoffs_failed(metrics_.failures());
  load->set_kv_bytes(metrics_.bytes());
}

bool PrefillServiceImpl::unused() const {
  absl::MutexLock lock(&mutex_);
  return !context_ || context_.use_count() == 1;
}

grpc::ServerBidiReactor<internal::v1::PrefillRequest, internal::v1::PrefillResponse>* PrefillServiceImpl::Prefill(
    grpc::CallbackServerContext*) {
  auto stream = PrefillCall::Stream::Create();
  std::shared_ptr<PrefillContext> context;
  {
    absl::MutexLock lock(&mutex_);
    if (accepting_) context = context_;
  }
  if (!context) {
    stream->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "this prefill worker is loading or draining"));
    return stream.get();
  }
  stream->Start(std::make_shared<PrefillCall>(context, stream));
  return stream.get();
}

}  // namespace baton
