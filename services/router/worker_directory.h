#pragma once

// The workers of this router and the models they serve: names are resolved again and again, links opened and closed,
// each model's text fetched once from one of its workers.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/task_pool.h"
#include "common/base/timer_queue.h"
#include "common/telemetry/log.h"
#include "services/router/config.h"
#include "services/router/served_model.h"
#include "services/router/worker_link.h"

namespace baton {

class WorkerDirectory {
 public:
  // `on_ready` hears whether a request for any model would find workers; called without a lock, on changes.
  WorkerDirectory(const RouterConfig& config, TimerQueue* timers, const Logger* log,
                  std::function<void(bool)> on_ready);
  ~WorkerDirectory();
  void Start();

  // NOT_FOUND with the known names; an empty name means the only model. UNAVAILABLE before any model is known.
  absl::StatusOr<std::shared_ptr<const ServedModel>> FindModel(const std::string& name) const;
  std::vector<std::shared_ptr<const ServedModel>> Models() const;

  // Ready workers of this model and role: those of its numerics in the order of their addresses, then prefill workers
  // of others. Where it has ready decode workers, only prefill workers that one of them may be paired with.
  std::vector<std::shared_ptr<WorkerLink>> Ready(const ServedModel& model, internal::v1::Role role) const;
  // True when a request for the model would find workers now.
  bool Serves(const ServedModel& model) const;
  // Every link, in the order of addresses.
  std::vector<std::shared_ptr<WorkerLink>> All() const;

 private:
  void Resolve();
  void OnChange();
  // Logs each ready prefill worker that none of its model's ready decode workers takes from, once while it lasts.
  void SayWhatDoesNotPair();
  void Fetch(const std::shared_ptr<WorkerLink>& link, const internal::v1::Identity& identity);

  const RouterConfig config_;
  TimerQueue* const timers_;
  const Logger* const log_;
  const std::function<void(bool)> on_ready_;

  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<WorkerLink>> links_ ABSL_GUARDED_BY(mutex_);  // by resolved address
  std::map<std::string, std::shared_ptr<const ServedModel>> models_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> fetching_ ABSL_GUARDED_BY(mutex_);  // model name -> numerics being fetched
  std::set<grpc::ClientContext*> fetch_calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> unpaired_ ABSL_GUARDED_BY(mutex_);  // address -> incarnation that was logged
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  TaskPool background_;  // name look-ups and tokenizer loading; last, so that it ends first
};

}  // namespace baton
