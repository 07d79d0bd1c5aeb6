#pragma once

// Puts between pools of one process: for tests, and for a prefill and a decode role that share a process.
//
// One thread per transport carries out what its own sessions were asked for, in order.

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/transport/kv_transport.h"

namespace baton {

class LocalPool;

// Pools by descriptor. Thread-safe.
class LocalNetwork {
 public:
  void Add(const std::string& descriptor, std::shared_ptr<LocalPool> pool);
  void Remove(const std::string& descriptor);
  std::shared_ptr<LocalPool> Find(const std::string& descriptor) const;  // null: no such pool, or gone

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<LocalPool>> pools_ ABSL_GUARDED_BY(mutex_);
};

// `message_puts`: every run asks the target's WriteGate, as a message-emulated put does.
std::unique_ptr<KvTransport> MakeLocalTransport(std::shared_ptr<LocalNetwork> network, bool message_puts);

}  // namespace baton
