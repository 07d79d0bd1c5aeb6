#pragma once

// Tells every watching router what changes on this worker: stage, load, prefix index. One thread looks twenty times a
// second and sends what is new, or a sign of life every two seconds. A router that reads too slowly gets a fresh
// snapshot instead of a growing backlog.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/kv/block_pool.h"
#include "common/rpc/server_stream.h"
#include "services/worker/runtime.h"

namespace baton {

class StatePublisher {
 public:
  using Stream = ServerWriteStream<internal::v1::WatchStateResponse>;

  explicit StatePublisher(internal::v1::Identity identity);
  ~StatePublisher();

  // The model is loaded: completes the identity; load and prefixes follow. `add_load` adds what the runtime does not
  // know to each load.
  using AddLoad = std::function<void(internal::v1::Load*)>;
  void SetReady(std::shared_ptr<WorkerRuntime> runtime, internal::v1::Identity identity, AddLoad add_load);
  void SetDraining();
  void Watch(std::shared_ptr<Stream> stream);
  void Unwatch(const Stream* stream);

 private:
  struct Watcher {
    std::shared_ptr<Stream> stream;
    bool needs_identity = true;
    bool needs_snapshot = true;
    uint64_t sequence = 0;  // of the prefix index, as this watcher knows it
    TimePoint last_sent;
  };

  void Loop();
  void Tick() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Publish(Watcher& watcher, const internal::v1::Load& load, bool changed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  internal::v1::Load CurrentLoad() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SteadyClock clock_;
  absl::Mutex mutex_;
  std::shared_ptr<WorkerRuntime> runtime_ ABSL_GUARDED_BY(mutex_);
  internal::v1::Identity identity_ ABSL_GUARDED_BY(mutex_);
  AddLoad add_load_ ABSL_GUARDED_BY(mutex_);
  internal::v1::Stage stage_ ABSL_GUARDED_BY(mutex_) = internal::v1::STAGE_LOADING;
  std::vector<Watcher> watchers_ ABSL_GUARDED_BY(mutex_);
  std::string last_load_ ABSL_GUARDED_BY(mutex_);
  std::vector<PrefixEvent> fresh_ ABSL_GUARDED_BY(mutex_);  // since the last tick
  bool stage_changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  absl::Mutex events_mutex_;  // alone under the pool's lock
  std::vector<PrefixEvent> events_ ABSL_GUARDED_BY(events_mutex_);
  std::thread thread_;
};

}  // namespace baton
