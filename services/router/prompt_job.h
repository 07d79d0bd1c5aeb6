#pragma once

// One prompt from admission to its report: chooses a pair, runs attempts on it, forwards tokens.
//
//   Run ─▶ attempt: Prefill ─started─▶ Decode(reserve) ─reserved─▶ lease to Prefill ─tokens─▶ ... ─committed─▶ tokens
//   ─▶ end
//           or:     Decode(local) ─started─▶ tokens ─▶ end
//           or:     Prefill alone, when every choice ends with its first token
//
// A worker that is lost, or a handoff that fails, ends the attempt; the next one starts on another pair with the tokens
// that were accepted so far, so that the client sees every index once. Streams of an old attempt are cancelled and what
// they still say is dropped by its id.
//
// Threads: gRPC's and the timers'. One lock; the owner's callbacks are made under it, in order, and must not call back.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/inference.pb.h"
#include "common/rpc/client_stream.h"
#include "common/sampling/params.h"
#include "services/router/choice_output.h"
#include "services/router/metrics.h"
#include "services/router/request_trace.h"
#include "services/router/worker_directory.h"

namespace baton {

// What all jobs share.
struct RouterContext {
  const RouterConfig* config = nullptr;
  const Logger* log = nullptr;
  RouterMetrics* metrics = nullptr;
  TimerQueue* timers = nullptr;
  WorkerDirectory* directory = nullptr;
  const Clock* clock = nullptr;
  SpanSink* spans = nullptr;  // null: none are sent
};

struct PromptSpec {
  std::string request_id;
  uint32_t prompt_index = 0;
  std::shared_ptr<const ServedModel> model;
  std::vector<TokenId> tokens;
  uint32_t choices = 1;
  SamplingParams sampling;
  OutputTextOptions output;
  int32_t priority = 0;
  std::string cache_salt;
  RequestTrace trace;
  TimePoint arrived, tokenized;
};

struct PromptCallbacks {
  std::function<void(std::vector<v1::ChoiceDelta>)> on_deltas;
  // Once, last. OK: `report` is complete.
  std::function<void(const grpc::Status&, const v1::PromptReport&)> on_end;
};

class PromptJob : public std::enable_shared_from_this<PromptJob> {
 public:
  PromptJob(const RouterContext& context, PromptSpec spec, PromptCallbacks callbacks);
  ~PromptJob();

  // The queue let it through.
  void Run();
  // The client is gone or aborted it: on_end follows with `status` at once, workers are told to stop.
  void Cancel(const grpc::Status& status);

 private:
  class PrefillSide;
  class DecodeSide;
  using PrefillStream = ClientBidiStream<internal::v1::PrefillRequest, internal::v1::PrefillResponse>;
  using DecodeStream = ClientBidiStream<internal::v1::DecodeRequest, internal::v1::DecodeResponse>;

  // The try that runs now.
  struct Attempt {
    uint64_t id = 0;  // 0: none
    std::shared_ptr<WorkerLink> prefill, decode;
    uint64_t prefill_incarnation = 0, decode_incarnation = 0;
    WorkerLink::Work prefill_work, decode_work;
    std::shared_ptr<PrefillStream> prefill_stream;  // set while the call runs
    std::shared_ptr<DecodeStream> decode_stream;
    internal::v1::Work work;  // as the attempt began: tokens that come later must not enter a repeated reservation
    bool started = false, reserved = false, committed = false, prefill_done = false;
    bool fence_relayed = false;
    bool first_tokens = false;  // of the prefill worker; they and a decode worker's travel on different connections
    std::vector<internal::v1::DecodeTokens> early;  // the decode worker's, until the first tokens are here
    uint32_t reserve_tries = 0;
    TimePoint reserve_sent, last_renewal;
    Duration renew_every{0};
    std::optional<TimerQueue::Id> timer;  // next renewal, reserve retry or end of patience
  };

  void StartAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // OK: workers are chosen and their work is counted.
  // Drops workers of failed handoffs from a pairing; with `last_resort` not if no other would be left.
  void AvoidFailedPairs(std::vector<std::shared_ptr<WorkerLink>>& links, std::vector<PairingCandidate>& views,
                        bool last_resort) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::Status Pair() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  internal::v1::Work MakeWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenPrefill() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenDecode(bool local) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ScheduleReserveRetry() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ScheduleRenewal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void OnPrefill(uint64_t attempt, internal::v1::PrefillResponse message);
  void OnPrefillEnd(uint64_t attempt, const grpc::Status& status);
  void OnDecode(uint64_t attempt, internal::v1::DecodeResponse message);
  void OnDecodeEnd(uint64_t attempt, const grpc::Status& status);
  void OnStarted(uint32_t cached_tokens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnPrefillDone(const internal::v1::PrefillDone& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AcceptTokens(const google::protobuf::RepeatedPtrField<internal::v1::Token>& tokens)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool AllEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All choices have ended: the report waits a little for what the workers still say.
  void AwaitStreams() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The attempt cannot go on: next one, or the end.
  void FailAttempt(const grpc::Status& status, uint64_t lost_incarnation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishReport() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Time for text since the last mark belongs to the stage that this one ends.
  void SettleDetokenize() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RouterContext context_;
  const PromptSpec spec_;
  ModelMetrics& metrics_;
  const TraceContext trace_;  // of the prompt's span
  const std::vector<Hash128> chain_;

  absl::Mutex mutex_;
  PromptCallbacks callbacks_ ABSL_GUARDED_BY(mutex_);
  std::vector<ChoiceOutput> choices_ ABSL_GUARDED_BY(mutex_);
  std::vector<TimePoint> last_token_ ABSL_GUARDED_BY(mutex_);  // by choice
  Attempt attempt_ ABSL_GUARDED_BY(mutex_);
  uint32_t attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t deaths_ ABSL_GUARDED_BY(mutex_) = 0;                     // workers lost while they ran this prompt
  absl::flat_hash_set<uint64_t> avoided_ ABSL_GUARDED_BY(mutex_);   // incarnations of pairs whose handoff failed
  absl::flat_hash_set<uint64_t> excluded_ ABSL_GUARDED_BY(mutex_);  // incarnations that failed it
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool awaiting_streams_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status last_failure_ ABSL_GUARDED_BY(mutex_);

  v1::PromptReport report_ ABSL_GUARDED_BY(mutex_);
  // Marks of the time account, each at or after the one before; unset ones count as the one before.
  struct Marks {
    std::optional<TimePoint> admitted, sent, reserve_sent, started, first_token, committed, last_token;
    // What workers say of the stages between: computing the prompt, and waiting for the decode worker's scheduler.
    Duration prefill_compute{0}, decode_queue{0};
    // Tokens to text. Of the last tokens' it is not known yet whether they are the last: then it falls after
    // last_token.
    Duration detokenize_tail{0}, detokenize_decode{0}, detokenize_last{0};
  } marks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
