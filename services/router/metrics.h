#pragma once

// Metrics of the router. Each is created at once with all its label values and moved where the thing happens. What
// concerns prompts stands under the model's name: those of a model exist from when a worker has reported it.

#include <grpcpp/support/status.h>

#include <array>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "common/routing/pairing.h"
#include "common/rpc/status.h"
#include "common/telemetry/metrics.h"

namespace baton {

// The stages of a prompt's time account in their order, as labels and spans name them. They add up to its total.
struct Stage {
  const char* name;
  double (v1::Timings::*seconds)() const;
};
inline constexpr Stage kStages[] = {
    {"tokenize", &v1::Timings::tokenize_seconds},
    {"queue", &v1::Timings::queue_seconds},
    {"pair", &v1::Timings::pair_seconds},
    {"prefill_queue", &v1::Timings::prefill_queue_seconds},
    {"prefill", &v1::Timings::prefill_seconds},
    {"first_token", &v1::Timings::first_token_seconds},
    {"transfer_tail", &v1::Timings::transfer_tail_seconds},
    {"decode_queue", &v1::Timings::decode_queue_seconds},
    {"decode", &v1::Timings::decode_seconds},
    {"detokenize", &v1::Timings::detokenize_seconds},
    {"finish", &v1::Timings::finish_seconds},
};

// Of the prompts of one model. Thread-safe.
class ModelMetrics {
 public:
  ModelMetrics(Metrics& metrics, const std::string& model);

  void OnDecision(PairingReason reason) { decisions_[static_cast<int>(reason)]->Increment(); }
  void OnFirstToken(Duration since_arrival) { first_token_.Observe(Seconds(since_arrival)); }
  void OnFirstText(Duration since_arrival) { first_text_.Observe(Seconds(since_arrival)); }
  void OnTokenGap(Duration gap) { token_gap_.Observe(Seconds(gap)); }
  void OnResume() { resumes_.Increment(); }
  void OnRetry() { retries_.Increment(); }
  // An attempt was given to workers of unequal numerics, so its tokens depend on the pair.
  void OnMixedNumerics() { mixed_numerics_.Increment(); }
  // An attempt ended without its prompt: the worker's status, or what the router made of it.
  void OnAttemptFailure(const grpc::Status& status);
  void OnRequestEnd(const grpc::Status& status);
  // A prompt ended, well or not. Tokens count either way (a prompt's once a worker was asked); times only of those that
  // ended well.
  void OnPromptEnd(const grpc::Status& status, const v1::PromptReport& report);

  // Since the start, for operators who ask the router itself.
  const prometheus::Histogram& first_token() const { return first_token_; }
  const prometheus::Histogram& token_gap() const { return token_gap_; }
  const prometheus::Histogram& end_to_end() const { return end_to_end_; }
  uint64_t requests(grpc::StatusCode code) const { return static_cast<uint64_t>(requests_[code]->Value()); }
  uint64_t prompt_tokens() const { return static_cast<uint64_t>(prompt_tokens_.Value()); }
  uint64_t generated_tokens() const { return static_cast<uint64_t>(generated_tokens_.Value()); }

 private:
  prometheus::Histogram &first_token_, &first_text_, &token_gap_, &per_token_, &end_to_end_;
  prometheus::Histogram &queue_, &prefill_, &decode_, &reserve_;
  prometheus::Counter &prompt_tokens_, &generated_tokens_, &cached_tokens_, &resumes_, &retries_, &mixed_numerics_;
  std::array<prometheus::Histogram*, std::size(kStages)> stages_;
  std::array<prometheus::Counter*, kPairingReasons> decisions_;
  std::array<prometheus::Counter*, kStatusCodes> requests_, attempt_failures_;
};

class RouterMetrics {
 public:
  explicit RouterMetrics(Metrics& metrics);

  // The same object for the same name. Only for names that a worker reported, never for a client's.
  ModelMetrics& Model(const std::string& name);
  // A request that names no model of this router, or came while it drains.
  void OnRefusedRequest(const grpc::Status& status);

  // Workers of a model and role by state; groups that are not mentioned any more fall to zero.
  struct WorkerGroup {
    std::string model, role, state;  // "unknown" where no worker has said it
    auto operator<=>(const WorkerGroup&) const = default;
  };
  void SetWorkers(const std::map<WorkerGroup, int>& workers);
  void SetLimits(uint32_t running, uint32_t waiting);
  prometheus::Gauge& running() { return running_; }
  prometheus::Gauge& waiting() { return waiting_; }
  prometheus::Gauge& ready() { return ready_; }

 private:
  Metrics& metrics_;
  prometheus::Gauge &running_, &waiting_, &running_limit_, &waiting_limit_, &ready_, &prefill_ready_, &decode_ready_;
  std::array<prometheus::Counter*, kStatusCodes> refused_;
  absl::Mutex mutex_;
  std::map<std::string, std::unique_ptr<ModelMetrics>> models_ ABSL_GUARDED_BY(mutex_);
  std::map<WorkerGroup, prometheus::Gauge*> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
