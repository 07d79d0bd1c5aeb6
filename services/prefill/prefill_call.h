#pragma once

// One Prefill call: the engine's events, the router's commands and the handoff meet here.
//
// Threads: gRPC (OnMessage, OnGone), the step thread (EngineSink), the sender's threads (OnHandoffDone). One lock;
// nothing that can block is called under it.
//
// It ends when the engine has ended the request and the handoff, if one began, has reported: only then do the blocks go
// back (the puts read them), the last message leaves and the call ends.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/prefill.pb.h"
#include "common/engine/request.h"
#include "common/handoff/sender.h"
#include "common/rpc/server_stream.h"
#include "services/prefill/prefill_context.h"
#include "services/worker/call_trace.h"

namespace baton {

class PrefillCall final : public ServerStreamHandler<internal::v1::PrefillRequest>,
                          public EngineSink,
                          public std::enable_shared_from_this<PrefillCall> {
 public:
  using Stream = ServerBidiStream<internal::v1::PrefillRequest, internal::v1::PrefillResponse>;

  PrefillCall(std::shared_ptr<PrefillContext> context, std::shared_ptr<Stream> stream);
  ~PrefillCall() override;

  void OnMessage(internal::v1::PrefillRequest message) override;
  void OnGone() override;

  void OnStarted(uint32_t cached_tokens) override;
  void OnPromptProgress(uint32_t tokens_done, std::span<const BlockId> blocks) override;
  void OnTokens(std::span<const ChoiceToken> tokens) override;
  void OnEnd(const absl::Status& status, const EngineTimings& timings) override;

 private:
  void Start(internal::v1::Work work);
  void BeginHandoff(const std::string& offer);
  void OnHandoffDone(const HandoffResult& result);
  // Tells the engine and the handoff to stop; the call ends with `status` once both have.
  void Abort(const grpc::Status& status, const std::string& reason);
  void Send(internal::v1::PrefillResponse message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the call if everything that must have ended has.
  void EndIfComplete() ABSL_LOCKS_EXCLUDED(mutex_);
  void AddHandoffSpans(const HandoffResult& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  internal::v1::PrefillDone Report() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<PrefillContext> context_;
  const std::shared_ptr<Stream> stream_;
  const TimePoint arrived_;
  const uint64_t id_;

  absl::Mutex mutex_;
  std::string request_id_ ABSL_GUARDED_BY(mutex_);
  uint64_t attempt_ ABSL_GUARDED_BY(mutex_) = 0;
  CallTrace trace_ ABSL_GUARDED_BY(mutex_);
  bool submitted_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the call's end was sent
  std::optional<grpc::Status> failure_ ABSL_GUARDED_BY(mutex_);

  // Prompt progress and first tokens, kept for a lease that comes later.
  TimePoint started_ ABSL_GUARDED_BY(mutex_);
  uint32_t prompt_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t tokens_done_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<BlockId> blocks_ ABSL_GUARDED_BY(mutex_);
  std::vector<FirstToken> first_tokens_ ABSL_GUARDED_BY(mutex_);
  std::optional<EngineTimings> timings_ ABSL_GUARDED_BY(mutex_);  // set: the engine has ended it

  bool no_lease_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<OutgoingHandoff> handoff_ ABSL_GUARDED_BY(mutex_);
  std::optional<HandoffResult> result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
