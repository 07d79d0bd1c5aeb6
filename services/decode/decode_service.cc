#include "services/decode/decode_service.h"

#include <cmath>

#include "common/base/status.h"
#include "services/decode/decode_call.h"

namespace baton {

void DecodeConfig::AddTo(Flags& flags) {
  flags.Add("control_host", &control_host, "Address to listen on for prefill workers' control connections.");
  flags.Add("control_port", &control_port, "Port for control connections; 0 takes a free one.");
  flags.Add("lease_seconds", &lease_seconds, "Life of a lease that nobody renews.", 0.1, 3600);
  flags.Add("max_leased_share", &max_leased_share, "Largest share of the KV pool under leases.", 0.01, 1);
  flags.Add("max_quarantined_share", &max_quarantined_share,
            "Share of the KV pool in quarantine above which the worker drains to restart.", 0.01, 1);
}

DecodeServiceImpl::DecodeServiceImpl(const DecodeConfig& decode, const WorkerConfig& config, const Logger& log,
                                     Metrics& metrics, WorkerMetrics& worker_metrics)
    : decode_(decode), config_(config), log_(log), metrics_(metrics, worker_metrics) {}

absl::Status DecodeServiceImpl::Attach(const std::shared_ptr<WorkerRuntime>& runtime) {
  auto context = std::make_shared<DecodeContext>();
  context->log = &log_;
  context->metrics = &metrics_;
  context->runtime = runtime;
  context->prefix_cache = config_.engine.prefix_cache;
  context->lease_seconds = decode_.lease_seconds;
  ReceiverOptions options;
  options.control_host = decode_.control_host;
  options.advertise_host = config_.transport.bind_host;
  options.control_port = decode_.control_port;
  options.lease_duration = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(decode_.lease_seconds));
  options.max_leased_share = decode_.max_leased_share;
  options.max_quarantined_share = decode_.max_quarantined_share;
  options.control = config_.control;
  BATON_ASSIGN_OR_RETURN(context->receiver,
                         HandoffReceiver::Start(options, runtime->numerics, runtime->incarnation, runtime->pool.get(),
                                                runtime->memory.get(), runtime->transport.get(), &runtime->clock));
  metrics_.Attach(context->receiver, std::floor(decode_.max_quarantined_share * runtime->pool->size()));
  absl::MutexLock lock(&mutex_);
  context_ = std::move(context);
  accepting_ = true;
  return absl::OkStatus();
}

void DecodeServiceImpl::StopAccepting() {
  absl::MutexLock lock(&mutex_);
  accepting_ = false;
}

uint32_t DecodeServiceImpl::open_work() const {
  absl::MutexLock lock(&mutex_);
  return context_ ? context_->open.load() : 0;
}

bool DecodeServiceImpl::unused() const {
  absl::MutexLock lock(&mutex_);
  return !context_ || context_.use_count() == 1;
}

uint32_t DecodeServiceImpl::max_lease_blocks() const {
  absl::MutexLock lock(&mutex_);
  return context_ ? context_->receiver->max_lease_blocks() : 0;
}

void DecodeServiceImpl::AddTo(internal::v1::Load* load) const {
  absl::MutexLock lock(&mutex_);
  if (!context_) return;
  const HandoffCounts counts = context_->receiver->counts();
  load->set_handoffs_committed(counts.committed);
  load->set_handoffs_failed(counts.expired + counts.writer_lost + counts.refused);
  load->set_open_leases(context_->receiver->open_leases());
}

bool DecodeServiceImpl::must_restart() const {
  absl::MutexLock lock(&mutex_);
  return context_ && context_->receiver->must_restart();
}

grpc::ServerBidiReactor<internal::v1::DecodeRequest, internal::v1::DecodeResponse>* DecodeServiceImpl::Decode(
    grpc::CallbackServerContext*) {
  auto stream = DecodeCall::Stream::Create();
  std::shared_ptr<DecodeContext> context;
  {
    absl::MutexLock lock(&mutex_);
    if (accepting_) context = context_;
  }
  if (!context) {
    stream->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "this decode worker is loading or draining"));
    return stream.get();
  }
  stream->Start(std::make_shared<DecodeCall>(context, stream));
  return stream.get();
}

}  // namespace baton
