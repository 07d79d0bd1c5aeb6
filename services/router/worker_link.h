#pragma once

// One worker as the router knows it: channel, state stream, prefix index, and what this router has sent it.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/decode.grpc.pb.h"
#include "baton/internal/v1/prefill.grpc.pb.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/base/ids.h"
#include "common/base/timer_queue.h"
#include "common/routing/pairing.h"
#include "common/routing/prefix_index.h"
#include "common/rpc/client_stream.h"
#include "common/telemetry/log.h"

namespace baton {

HandoffIdentity HandoffIdentityOf(const internal::v1::Identity& identity);

// Thread-safe. The state stream is opened by Start and again after every end until Stop.
class WorkerLink final : public ClientStreamHandler<internal::v1::WatchStateResponse>,
                         public std::enable_shared_from_this<WorkerLink> {
 public:
  struct State {
    bool connected = false;
    internal::v1::Stage stage = internal::v1::STAGE_UNSPECIFIED;
    internal::v1::Identity identity;  // of the last message that carried one
    internal::v1::Load load;
    uint32_t in_flight = 0;  // calls of this router
    bool ready() const { return connected && stage == internal::v1::STAGE_READY && identity.numerics_hash() != 0; }
  };

  // `on_change` is called without a lock whenever connection, stage or identity changed.
  WorkerLink(std::string address, std::shared_ptr<grpc::Channel> channel, TimerQueue* timers, const Logger* log,
             std::function<void()> on_change);

  void Start();
  void Stop();
  // After Stop: returns when no call of `on_change` runs and none will come.
  void AwaitEnd();

  const std::string& address() const { return address_; }
  State state() const;
  // This worker's costs for a prompt with these block hashes.
  PairingCandidate Candidate(std::span<const Hash128> chain) const;

  internal::v1::PrefillService::Stub& prefill() { return *prefill_; }
  internal::v1::DecodeService::Stub& decode() { return *decode_; }
  internal::v1::WorkerService::Stub& worker() { return *worker_; }

  // Work sent, counted at once; each Add is paired with one Remove.
  struct Work {
    uint64_t prompt_tokens = 0;  // prefill
    uint32_t blocks = 0;         // decode
    uint32_t sequences = 0;      // decode
  };
  void AddWork(const Work& work);
  void RemoveWork(const Work& work);

  void OnMessage(internal::v1::WatchStateResponse message) override;
  void OnEnd(const grpc::Status& status) override;

 private:
  void Watch();

  const std::string address_;
  const std::shared_ptr<grpc::Channel> channel_;
  TimerQueue* const timers_;
  const Logger* const log_;
  const std::function<void()> on_change_;
  const std::unique_ptr<internal::v1::PrefillService::Stub> prefill_;
  const std::unique_ptr<internal::v1::DecodeService::Stub> decode_;
  const std::unique_ptr<internal::v1::WorkerService::Stub> worker_;

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_);
  PrefixIndex prefixes_ ABSL_GUARDED_BY(mutex_);
  Work sent_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int open_streams_ ABSL_GUARDED_BY(mutex_) = 0;  // those whose OnEnd has not returned
  std::string last_error_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ClientReadStream<internal::v1::WatchStateRequest, internal::v1::WatchStateResponse>> stream_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
