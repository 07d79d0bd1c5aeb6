#include "services/router/metrics.h"

namespace baton {
namespace {

constexpr char kUnknown[] = "unknown";

int IndexOf(grpc::StatusCode code) { return code >= 0 && code < kStatusCodes ? code : grpc::StatusCode::UNKNOWN; }

std::array<prometheus::Counter*, kStatusCodes> ByCode(Metrics& metrics, const char* name, const char* help,
                                                      const std::string& model) {
  std::array<prometheus::Counter*, kStatusCodes> counters;
  for (int code = 0; code < kStatusCodes; ++code) {
    counters[code] =
        &metrics.Counter(name, help, {{"model", model}, {"reason", CodeName(static_cast<grpc::StatusCode>(code))}});
  }
  return counters;
}

std::array<prometheus::Counter*, kStatusCodes> Requests(Metrics& metrics, const std::string& model) {
  return ByCode(metrics, "baton_requests_total", "Requests that ended, by gRPC code.", model);
}

}  // namespace

ModelMetrics::ModelMetrics(Metrics& metrics, const std::string& model)
    : first_token_(metrics.Histogram("baton_time_to_first_token_seconds",
                                     "Arrival of a request at the router to its first token.", FirstTokenBuckets(),
                                     {{"model", model}})),
      first_text_(metrics.Histogram("baton_time_to_first_text_seconds",
                                    "Arrival of a request at the router to its first visible text.",
                                    FirstTokenBuckets(), {{"model", model}})),
      token_gap_(metrics.Histogram("baton_inter_token_latency_seconds",
                                   "Gap between two tokens of a choice at the router.", TokenGapBuckets(),
                                   {{"model", model}})),
      per_token_(metrics.Histogram("baton_request_time_per_output_token_seconds",
                                   "Mean gap between the tokens of a prompt's choices.", TokenGapBuckets(),
                                   {{"model", model}})),
      end_to_end_(metrics.Histogram("baton_e2e_request_latency_seconds",
                                    "Arrival of a prompt to its end, of those that ended well.", RequestBuckets(),
                                    {{"model", model}})),
      queue_(metrics.Histogram("baton_request_queue_time_seconds",
                               "Waiting for a place at the router and for the worker's scheduler.", FirstTokenBuckets(),
                               {{"model", model}})),
      prefill_(metrics.Histogram("baton_request_prefill_time_seconds", "Scheduled to first token, router clock.",
                                 FirstTokenBuckets(), {{"model", model}})),
      decode_(metrics.Histogram("baton_request_decode_time_seconds", "First token to last token, router clock.",
                                RequestBuckets(), {{"model", model}})),
      reserve_(metrics.Histogram("baton_request_reserve_time_seconds",
                                 "Asking the decode worker for blocks until it promised them, router clock.",
                                 StageBuckets(), {{"model", model}})),
      prompt_tokens_(metrics.Counter("baton_prompt_tokens_total",
                                     "Prompt tokens of ended prompts, aborted ones included.", {{"model", model}})),
      generated_tokens_(metrics.Counter("baton_generation_tokens_total",
                                        "Tokens accepted from workers for ended prompts, aborted ones included.",
                                        {{"model", model}})),
      cached_tokens_(metrics.Counter("baton_cached_prompt_tokens_total", "Prompt tokens found in a prefix cache.",
                                     {{"model", model}})),
      resumes_(metrics.Counter("baton_resumes_total", "Attempts that went on after tokens had been sent.",
                               {{"model", model}})),
      retries_(metrics.Counter("baton_retries_total", "Attempts that started again before the first token.",
                               {{"model", model}})),
      mixed_numerics_(metrics.Counter("baton_mixed_numerics_attempts_total",
                                      "Attempts whose prompt was given to a prefill worker of other numerics.",
                                      {{"model", model}})),
      requests_(Requests(metrics, model)),
      attempt_failures_(ByCode(metrics, "baton_attempt_failures_total",
                               "Attempts of prompts on workers that failed, by gRPC code.", model)) {
  for (size_t i = 0; i < std::size(kStages); ++i) {
    stages_[i] = &metrics.Histogram("baton_request_stage_seconds",
                                    "Stages of a prompt's time account; they add up to its total.", StageBuckets(),
                                    {{"model", model}, {"stage", kStages[i].name}});
  }
  for (int i = 0; i < kPairingReasons; ++i) {
    const std::string reason(PairingReasonName(static_cast<PairingReason>(i)));
    decisions_[i] = &metrics.Counter("baton_disaggregation_decisions_total", "Pairing decisions by reason.",
                                     {{"model", model}, {"reason", reason}});
  }
}

void ModelMetrics::OnAttemptFailure(const grpc::Status& status) {
  attempt_failures_[IndexOf(status.error_code())]->Increment();
}

void ModelMetrics::OnRequestEnd(const grpc::Status& status) { requests_[IndexOf(status.error_code())]->Increment(); }

void ModelMetrics::OnPromptEnd(const grpc::Status& status, const v1::PromptReport& report) {
  if (!report.route().prefill_worker().empty()) prompt_tokens_.Increment(report.usage().prompt_tokens());
  cached_tokens_.Increment(report.usage().cached_prompt_tokens());
  generated_tokens_.Increment(report.usage().completion_tokens());
  if (!status.ok()) return;
  const v1::Timings& timings = report.timings();
  for (size_t i = 0; i < std::size(kStages); ++i) stages_[i]->Observe((timings.*kStages[i].seconds)());
  queue_.Observe(timings.queue_seconds() + timings.prefill_queue_seconds());
  prefill_.Observe(timings.prefill_seconds() + timings.first_token_seconds());
  decode_.Observe(timings.transfer_tail_seconds() + timings.decode_queue_seconds() + timings.decode_seconds() +
                  timings.detokenize_seconds());
  end_to_end_.Observe(timings.total_seconds());
  if (timings.reserve_seconds() > 0) reserve_.Observe(timings.reserve_seconds());
  if (timings.time_per_output_token_seconds() > 0) per_token_.Observe(timings.time_per_output_token_seconds());
}

RouterMetrics::RouterMetrics(Metrics& metrics)
    : metrics_(metrics),
      running_(metrics.Gauge("baton_requests_running", "Prompts being served.")),
      waiting_(metrics.Gauge("baton_requests_waiting", "Prompts waiting for a place.")),
      running_limit_(
          metrics.Gauge("baton_requests_limit", "Most prompts that may run or wait.", {{"state", "running"}})),
      waiting_limit_(
          metrics.Gauge("baton_requests_limit", "Most prompts that may run or wait.", {{"state", "waiting"}})),
      ready_(metrics.Gauge("baton_ready", "1 while a request would find workers.")),
      prefill_ready_(metrics.Gauge("baton_workers_ready", "Ready workers by role.", {{"worker_role", "prefill"}})),
      decode_ready_(metrics.Gauge("baton_workers_ready", "Ready workers by role.", {{"worker_role", "decode"}})),
      refused_(Requests(metrics, kUnknown)) {
  SetWorkers({{{kUnknown, kUnknown, "unreachable"}, 0}});
}

ModelMetrics& RouterMetrics::Model(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  auto& model = models_[name];
  if (!model) model = std::make_unique<ModelMetrics>(metrics_, name);
  return *model;
}

void RouterMetrics::OnRefusedRequest(const grpc::Status& status) {
  refused_[IndexOf(status.error_code())]->Increment();
}

void RouterMetrics::SetLimits(uint32_t running, uint32_t waiting) {
  running_limit_.Set(running);
  waiting_limit_.Set(waiting);
}

void RouterMetrics::SetWorkers(const std::map<WorkerGroup, int>& workers) {
  absl::MutexLock lock(&mutex_);
  for (auto& [group, gauge] : workers_) gauge->Set(0);
  int prefill_ready = 0, decode_ready = 0;
  for (const auto& [group, count] : workers) {
    // A group that is new comes with all its states.
    for (const char* state : {"ready", "loading", "draining", "unreachable"}) {
      auto& gauge = workers_[{group.model, group.role, state}];
      if (gauge) continue;
      gauge = &metrics_.Gauge("baton_workers", "Workers by model, role and state.",
                              {{"model", group.model}, {"worker_role", group.role}, {"state", state}});
    }
    workers_[group]->Set(count);
    if (group.state == "ready") (group.role == "prefill" ? prefill_ready : decode_ready) += count;
  }
  prefill_ready_.Set(prefill_ready);
  decode_ready_.Set(decode_ready);
}

}  // namespace baton
