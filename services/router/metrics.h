#pragma once

// Metrics of the router. Each is created at once with all its label values and moved where the thing happens.

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "common/routing/pairing.h"
#include "common/telemetry/metrics.h"

namespace baton {

class RouterMetrics {
 public:
  explicit RouterMetrics(Metrics& metrics);

  void OnDecision(PairingReason reason) { decisions_[static_cast<int>(reason)]->Increment(); }
  void OnFirstToken(Duration since_arrival) { first_token_.Observe(Seconds(since_arrival)); }
  void OnFirstText(Duration since_arrival) { first_text_.Observe(Seconds(since_arrival)); }
  void OnTokenGap(Duration gap) { token_gap_.Observe(Seconds(gap)); }
  void OnResume() { resumes_.Increment(); }
  void OnRetry() { retries_.Increment(); }
  // A request ended: the lower-case gRPC code, "ok" for success.
  void OnRequestEnd(const grpc::Status& status);
  // A prompt ended, well or not. Tokens count either way (a prompt's once a worker was asked); times only of those that
  // ended well.
  void OnPromptEnd(const grpc::Status& status, const v1::PromptReport& report);

  prometheus::Gauge& running() { return running_; }
  prometheus::Gauge& waiting() { return waiting_; }
  prometheus::Gauge& ready() { return ready_; }
  // Ready workers of a role.
  prometheus::Gauge& workers(bool prefill) { return prefill ? prefill_workers_ : decode_workers_; }

 private:
  prometheus::Histogram &first_token_, &first_text_, &token_gap_, &per_token_, &end_to_end_;
  prometheus::Histogram &queue_, &prefill_, &decode_;
  prometheus::Counter &prompt_tokens_, &generated_tokens_, &cached_tokens_, &resumes_, &retries_;
  prometheus::Gauge &running_, &waiting_, &ready_, &prefill_workers_, &decode_workers_;
  prometheus::Counter* decisions_[kPairingReasons];
  prometheus::Counter* requests_[17];  // by gRPC code
};

// "ok", "cancelled", "deadline_exceeded", ...
const char* CodeName(grpc::StatusCode code);

}  // namespace baton
