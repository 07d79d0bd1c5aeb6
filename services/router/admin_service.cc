#include "services/router/admin_service.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

v1::WorkerState StateOf(const WorkerLink::State& state) {
  if (!state.connected) return v1::WORKER_STATE_UNREACHABLE;
  switch (state.stage) {
    case internal::v1::STAGE_READY:
      return v1::WORKER_STATE_READY;
    case internal::v1::STAGE_DRAINING:
      return v1::WORKER_STATE_DRAINING;
    default:
      return v1::WORKER_STATE_LOADING;
  }
}

void Fill(const WorkerLink& link, v1::Worker* out) {
  const WorkerLink::State state = link.state();
  const internal::v1::Load& load = state.load;
  out->set_address(link.address());
  out->set_role(state.identity.role() == internal::v1::ROLE_PREFILL  ? v1::WORKER_ROLE_PREFILL
                : state.identity.role() == internal::v1::ROLE_DECODE ? v1::WORKER_ROLE_DECODE
                                                                     : v1::WORKER_ROLE_UNSPECIFIED);
  out->set_state(StateOf(state));
  out->set_model(state.identity.model());
  out->set_incarnation(absl::StrFormat("%016x", state.identity.incarnation()));
  out->set_waiting_requests(load.waiting_requests());
  out->set_waiting_prompt_tokens(load.waiting_prompt_tokens());
  out->set_running_sequences(load.running_sequences());
  out->set_max_batch(state.identity.max_batch());
  out->mutable_kv_blocks()->set_free(load.blocks_free());
  out->mutable_kv_blocks()->set_cached(load.blocks_cached());
  out->mutable_kv_blocks()->set_leased(load.blocks_leased());
  out->mutable_kv_blocks()->set_owned(load.blocks_owned());
  out->mutable_kv_blocks()->set_quarantined(load.blocks_quarantined());
  out->set_block_bytes(state.identity.block_bytes());
  out->set_prompt_tokens(load.prompt_tokens());
  out->set_generated_tokens(load.generated_tokens());
  out->set_in_flight(state.in_flight);
  out->set_layout_hash(absl::StrFormat("%016x", state.identity.layout_hash()));
  out->set_numerics_hash(absl::StrFormat("%016x", state.identity.numerics_hash()));
  out->set_allow_mixed_numerics(state.identity.allow_mixed_numerics());
  out->set_preemptions(load.preemptions());
  out->set_prefix_queries(load.prefix_queries());
  out->set_prefix_hits(load.prefix_hits());
  out->set_version(state.identity.version());
  out->set_flops(load.flops());
  out->set_bytes_read(load.bytes_read());
  out->set_peak_flops_per_second(state.identity.peak_flops_per_second());
  out->set_peak_bytes_per_second(state.identity.peak_bytes_per_second());
  out->set_handoffs_committed(load.handoffs_committed());
  out->set_handoffs_failed(load.handoffs_failed());
  out->set_kv_bytes(load.kv_bytes());
  out->set_open_leases(load.open_leases());
}

void Fill(const prometheus::Histogram& histogram, v1::Histogram* out) {
  const prometheus::ClientMetric::Histogram values = histogram.Collect().histogram;
  uint64_t below = 0;
  for (const auto& bucket : values.bucket) {
    if (!std::isinf(bucket.upper_bound)) out->add_upper_bounds(bucket.upper_bound);
    out->add_counts(bucket.cumulative_count - below);
    below = bucket.cumulative_count;
  }
  out->set_sum(values.sample_sum);
}

void Fill(const ModelMetrics& metrics, const std::string& model, v1::ModelActivity* out) {
  out->set_model(model);
  Fill(metrics.first_token(), out->mutable_time_to_first_token());
  Fill(metrics.token_gap(), out->mutable_inter_token_latency());
  Fill(metrics.end_to_end(), out->mutable_request_latency());
  uint64_t all = 0;
  for (int code = 0; code < kStatusCodes; ++code) all += metrics.requests(static_cast<grpc::StatusCode>(code));
  out->set_requests_ok(metrics.requests(grpc::StatusCode::OK));
  out->set_requests_failed(all - std::min(all, out->requests_ok()));
  out->set_prompt_tokens(metrics.prompt_tokens());
  out->set_generated_tokens(metrics.generated_tokens());
}

}  // namespace

grpc::ServerUnaryReactor* AdminServiceImpl::ListWorkers(grpc::CallbackServerContext* context,
                                                        const v1::ListWorkersRequest*,
                                                        v1::ListWorkersResponse* response) {
  for (const auto& link : directory_->All()) Fill(*link, response->add_workers());
  std::stable_sort(response->mutable_workers()->begin(), response->mutable_workers()->end(),
                   [](const v1::Worker& a, const v1::Worker& b) { return a.role() < b.role(); });
  response->set_router_waiting(queue_->waiting());
  response->set_router_running(queue_->running());
  response->set_router_max_running(queue_->places());
  response->set_router_max_waiting(queue_->capacity());
  for (const auto& model : directory_->Models()) {
    Fill(metrics_->Model(model->name), model->name, response->add_models());
  }
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AdminServiceImpl::DrainWorker(grpc::CallbackServerContext* context,
                                                        const v1::DrainWorkerRequest* request,
                                                        v1::DrainWorkerResponse*) {
  auto* reactor = context->DefaultReactor();
  const auto links = directory_->All();
  const auto found =
      std::find_if(links.begin(), links.end(), [&](const auto& link) { return link->address() == request->address(); });
  if (found == links.end()) {
    std::string known;
    for (const auto& link : links) known += (known.empty() ? "" : ", ") + link->address();
    reactor->Finish(ToGrpc(NotFound("no worker at '%s'; there is: %s", request->address(), known)));
    return reactor;
  }
  struct Call {
    grpc::ClientContext context;
    internal::v1::DrainRequest request;
    internal::v1::DrainResponse response;
  };
  auto call = std::make_shared<Call>();
  call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  (*found)->worker().async()->Drain(
      &call->context, &call->request, &call->response,
      [call, link = *found, reactor](const grpc::Status& status) { reactor->Finish(status); });
  return reactor;
}

}  // namespace baton
