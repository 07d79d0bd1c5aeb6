#include "services/router/metrics.h"

namespace baton {
namespace {

constexpr const char* kCodes[] = {
    "ok",        "cancelled",      "unknown",           "invalid_argument",   "deadline_exceeded",
    "not_found", "already_exists", "permission_denied", "resource_exhausted", "failed_precondition",
    "aborted",   "out_of_range",   "unimplemented",     "internal",           "unavailable",
    "data_loss", "unauthenticated"};

}  // namespace

const char* CodeName(grpc::StatusCode code) { return code >= 0 && code < 17 ? kCodes[code] : "unknown"; }

RouterMetrics::RouterMetrics(Metrics& metrics)
    : first_token_(metrics.Histogram("baton_time_to_first_token_seconds",
                                     "Arrival of a request at the router to its first token.", FirstTokenBuckets())),
      first_text_(metrics.Histogram("baton_time_to_first_text_seconds",
                                    "Arrival of a request at the router to its first visible text.",
                                    FirstTokenBuckets())),
      token_gap_(metrics.Histogram("baton_inter_token_latency_seconds",
                                   "Gap between two tokens of a choice at the router.", TokenGapBuckets())),
      per_token_(metrics.Histogram("baton_request_time_per_output_token_seconds",
                                   "Mean gap between the tokens of a prompt's choices.", TokenGapBuckets())),
      end_to_end_(metrics.Histogram("baton_e2e_request_latency_seconds",
                                    "Arrival of a prompt to its end, of those that ended well.", RequestBuckets())),
      queue_(metrics.Histogram("baton_request_queue_time_seconds",
                               "Waiting for a place at the router and for the worker's scheduler.",
                               FirstTokenBuckets())),
      prefill_(metrics.Histogram("baton_request_prefill_time_seconds", "Scheduled to first token, router clock.",
                                 FirstTokenBuckets())),
      decode_(metrics.Histogram("baton_request_decode_time_seconds", "First token to last token, router clock.",
                                RequestBuckets())),
      prompt_tokens_(
          metrics.Counter("baton_prompt_tokens_total", "Prompt tokens of ended prompts, aborted ones included.")),
      generated_tokens_(metrics.Counter("baton_generation_tokens_total",
                                        "Tokens accepted from workers for ended prompts, aborted ones included.")),
      cached_tokens_(metrics.Counter("baton_cached_prompt_tokens_total", "Prompt tokens found in a prefix cache.")),
      resumes_(metrics.Counter("baton_resumes_total", "Attempts that went on after tokens had been sent.")),
      retries_(metrics.Counter("baton_retries_total", "Attempts that started again before the first token.")),
      running_(metrics.Gauge("baton_requests_running", "Prompts being served.")),
      waiting_(metrics.Gauge("baton_requests_waiting", "Prompts waiting for a place.")),
      ready_(metrics.Gauge("baton_ready", "1 while a request would find workers.")),
      prefill_workers_(metrics.Gauge("baton_workers_ready", "Ready workers by role.", {{"worker_role", "prefill"}})),
      decode_workers_(metrics.Gauge("baton_workers_ready", "Ready workers by role.", {{"worker_role", "decode"}})) {
  for (int i = 0; i < kPairingReasons; ++i) {
    const std::string name(PairingReasonName(static_cast<PairingReason>(i)));
    decisions_[i] =
        &metrics.Counter("baton_disaggregation_decisions_total", "Pairing decisions by reason.", {{"reason", name}});
  }
  for (int code = 0; code < 17; ++code) {
    requests_[code] =
        &metrics.Counter("baton_requests_total", "Requests that ended, by gRPC code.", {{"reason", kCodes[code]}});
  }
}

void RouterMetrics::OnRequestEnd(const grpc::Status& status) {
  const int code = status.error_code();
  requests_[code >= 0 && code < 17 ? code : 2]->Increment();
}

void RouterMetrics::OnPromptEnd(const grpc::Status& status, const v1::PromptReport& report) {
  if (!report.route().prefill_worker().empty()) prompt_tokens_.Increment(report.usage().prompt_tokens());
  cached_tokens_.Increment(report.usage().cached_prompt_tokens());
  generated_tokens_.Increment(report.usage().completion_tokens());
  if (!status.ok()) return;
  const v1::Timings& timings = report.timings();
  queue_.Observe(timings.queue_seconds() + timings.prefill_queue_seconds());
  prefill_.Observe(timings.prefill_seconds());
  decode_.Observe(timings.transfer_tail_seconds() + timings.decode_seconds());
  end_to_end_.Observe(timings.total_seconds());
  if (timings.time_per_output_token_seconds() > 0) per_token_.Observe(timings.time_per_output_token_seconds());
}

}  // namespace baton
