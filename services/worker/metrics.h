#pragma once

// Metrics that both workers report.

#include <memory>

#include "common/telemetry/metrics.h"
#include "services/worker/runtime.h"

namespace baton {

class WorkerMetrics {
 public:
  // Creates every series at once.
  explicit WorkerMetrics(Metrics& metrics);

  // Fills gauges and counters from the runtime at every scrape from now on. Creates baton_model_info, whose labels only
  // the model's files tell.
  void Attach(const std::shared_ptr<WorkerRuntime>& runtime);
  void OnDrain() { ready_.Set(0); }
  void OnStep(const StepReport& report);
  // A request left the engine: "ok", or the lower-case gRPC code of its end.
  void OnRequestEnd(const std::string& reason);
  void OnEngineTimings(const EngineTimings& timings, bool prefilled, bool decoded);
  // From the worker's own door to its first token; and the gap before each further one.
  void OnFirstToken(Duration since_arrival) { time_to_first_token_.Observe(Seconds(since_arrival)); }
  void OnTokenGap(Duration gap) { inter_token_latency_.Observe(Seconds(gap)); }

 private:
  void Collect();

  Metrics& metrics_;
  std::shared_ptr<WorkerRuntime> runtime_;
  EngineLoad last_;

  prometheus::Histogram &step_seconds_, &step_tokens_, &batch_size_, &step_prediction_;
  prometheus::Histogram &queue_seconds_, &prefill_seconds_, &decode_seconds_;
  prometheus::Histogram &time_to_first_token_, &inter_token_latency_;
  prometheus::Gauge &running_, &waiting_, &waiting_tokens_, &slots_used_, &slots_available_;
  prometheus::Gauge &free_, &cached_, &leased_, &owned_, &quarantined_, &usage_;
  prometheus::Gauge &block_bytes_, &transport_bandwidth_, &ready_, &stalled_, &load_seconds_;
  prometheus::Gauge &peak_flops_, &peak_bytes_;
  prometheus::Gauge &itl_target_, &prompt_budget_, &swap_used_, &swap_free_;
  prometheus::Counter &prompt_tokens_, &generated_tokens_, &cached_tokens_;
  prometheus::Counter &prefix_queries_, &prefix_hits_, &flops_, &bytes_;
  prometheus::Counter &swap_preemptions_, &recompute_preemptions_, &swapped_out_, &swapped_in_, &swap_bytes_out_,
      &swap_bytes_in_, &late_steps_;
};

}  // namespace baton
