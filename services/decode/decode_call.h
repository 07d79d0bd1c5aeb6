#pragma once

// One Decode call: lease, commit, engine events and the router's commands meet here.
//
// Threads: gRPC (OnMessage, OnGone), the receiver's verifier (OnLeaseEnd), the step thread (EngineSink). One lock.
//
//   reserve ─▶ leased ──commit──▶ running ─▶ ended          local ─▶ running ─▶ ended
//                 └──lease ends otherwise──▶ ended

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/decode.pb.h"
#include "common/engine/request.h"
#include "common/rpc/server_stream.h"
#include "services/decode/decode_context.h"
#include "services/worker/call_trace.h"

namespace baton {

class DecodeCall final : public ServerStreamHandler<internal::v1::DecodeRequest>,
                         public EngineSink,
                         public std::enable_shared_from_this<DecodeCall> {
 public:
  using Stream = ServerBidiStream<internal::v1::DecodeRequest, internal::v1::DecodeResponse>;

  DecodeCall(std::shared_ptr<DecodeContext> context, std::shared_ptr<Stream> stream);
  ~DecodeCall() override;

  void OnMessage(internal::v1::DecodeRequest message) override;
  void OnGone() override;

  void OnStarted(uint32_t cached_tokens) override;
  void OnPromptProgress(uint32_t tokens_done, std::span<const BlockId> blocks) override;
  void OnTokens(std::span<const ChoiceToken> tokens) override;
  void OnEnd(const absl::Status& status, const EngineTimings& timings) override;

 private:
  enum class Stage { kNew, kLeased, kRunning, kEnded };

  // The first message's request, checked; nullopt: the call was ended with the error.
  std::optional<EngineRequest> Accept(const internal::v1::Work& work);
  void Reserve(const internal::v1::Work& work);
  void RunLocally(const internal::v1::Work& work);
  void OnLeaseEnd(absl::StatusOr<CommittedHandoff> committed);
  // Gives the engine what a handoff left to do; blocks in `request` are this call's until it took them.
  void Continue(EngineRequest request);
  void StopChoice(uint32_t choice);
  void Send(internal::v1::DecodeResponse message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(const absl::Status& status);

  const std::shared_ptr<DecodeContext> context_;
  const std::shared_ptr<Stream> stream_;
  const TimePoint arrived_;
  const uint64_t id_;

  absl::Mutex mutex_;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kNew;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::string request_id_ ABSL_GUARDED_BY(mutex_);
  uint64_t attempt_ ABSL_GUARDED_BY(mutex_) = 0;
  CallTrace trace_ ABSL_GUARDED_BY(mutex_);
  TimePoint reserved_at_ ABSL_GUARDED_BY(mutex_), submitted_at_ ABSL_GUARDED_BY(mutex_);
  uint32_t tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<LeaseKey> lease_ ABSL_GUARDED_BY(mutex_);
  EngineRequest reserved_ ABSL_GUARDED_BY(mutex_);       // waits for the commit
  std::vector<BlockId> pinned_ ABSL_GUARDED_BY(mutex_);  // prefix hits held for it
  std::vector<Hash128> chain_ ABSL_GUARDED_BY(mutex_);   // of the prompt's full blocks
  absl::flat_hash_set<uint32_t> stopped_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint32_t, TimePoint> last_token_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
