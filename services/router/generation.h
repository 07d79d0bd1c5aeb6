#pragma once

// One client request: tokenizes its prompts, queues them, runs a job for each, and gives the front end what they say in
// one order. Ends all jobs when one fails or the client goes.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/inference.pb.h"
#include "common/base/task_pool.h"
#include "common/routing/admission_queue.h"
#include "services/router/prompt_job.h"
#include "services/router/request.h"

namespace baton {

class Generation;

// Running requests by id, so that Abort finds them. Thread-safe.
class RequestTable {
 public:
  // False when the id is taken.
  bool Add(const std::string& request_id, const std::shared_ptr<Generation>& generation);
  void Remove(const std::string& request_id);
  std::shared_ptr<Generation> Find(const std::string& request_id) const;
  uint32_t size() const;
  // Ends every request with `status`.
  void CancelAll(const grpc::Status& status);

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<Generation>> requests_ ABSL_GUARDED_BY(mutex_);
};

struct GenerationContext {
  RouterContext router;
  AdmissionQueue* queue = nullptr;
  TaskPool* text = nullptr;
  RequestTable* table = nullptr;
};

// What a front end hears: calls come one at a time, OnEnd last. Must not call back into the generation.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  // Not OK: the request ends with that status (its client does not take what it is sent).
  virtual grpc::Status OnDeltas(std::vector<v1::ChoiceDelta> deltas) = 0;
  virtual void OnReport(const v1::PromptReport& report) = 0;
  virtual void OnEnd(const grpc::Status& status) = 0;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(const GenerationContext& context, GenerationPlan plan, std::string owner, RequestTrace trace,
             TimePoint arrived, std::shared_ptr<GenerationSink> sink);

  // Tokenizes off this thread, then queues. ALREADY_EXISTS through the sink when the id runs already.
  void Start(v1::GenerateRequest request);
  // Ends it with `status`; later ends have no effect.
  void Cancel(const grpc::Status& status);

  const std::string& owner() const { return owner_; }
  const GenerationPlan& plan() const { return plan_; }

 private:
  struct Queued {
    std::shared_ptr<PromptJob> job;
    AdmissionQueue::Ticket ticket;
    bool entered = false;   // has a ticket
    bool admitted = false;  // has a place, to be left
    bool ended = false;
  };

  void Tokenize(const v1::GenerateRequest& request);
  // The prompt's tokens as a job's specification; FAILED_PRECONDITION with both numbers when it is too long.
  absl::StatusOr<PromptSpec> MakeSpec(const v1::Prompt& prompt, std::vector<TokenId> tokens, uint32_t index) const;
  void Launch(std::vector<PromptSpec> specs);
  void OnAdmitted(uint32_t index);
  void OnJobEnd(uint32_t index, const grpc::Status& status, const v1::PromptReport& report);
  void End(const grpc::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // From a job's callback: its lock is held, so jobs are ended from the timers' thread.
  void EndLater(const grpc::Status& status);
  void LeaveQueue();
  void AddRequestSpan(const grpc::Status& status, TimePoint end) const;
  void LogPrompt(const grpc::Status& status, const v1::PromptReport& report) const;

  const GenerationContext context_;
  const GenerationPlan plan_;
  const std::string owner_;
  const RequestTrace trace_;
  const TimePoint arrived_;

  std::atomic<bool> cancelled_{false};  // read by the tokenizer
  absl::Mutex mutex_;
  std::shared_ptr<GenerationSink> sink_ ABSL_GUARDED_BY(mutex_);  // until the end
  std::vector<Queued> jobs_ ABSL_GUARDED_BY(mutex_);
  uint32_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton
