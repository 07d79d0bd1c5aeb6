#pragma once

// A WriteGate that knows which leases live, counts what it refused, and checks that Admit and Written pair up.

#include <map>
#include <set>

#include "absl/synchronization/mutex.h"
#include "common/transport/kv_transport.h"

namespace baton {

class TestGate final : public WriteGate {
 public:
  void Open(LeaseId lease) {
    absl::MutexLock lock(&mutex_);
    open_.insert(lease);
  }
  // Returns when no write is under way either.
  void Close(LeaseId lease) {
    absl::MutexLock lock(&mutex_);
    open_.erase(lease);
    const auto idle = [this] { return in_progress_ == 0; };
    mutex_.Await(absl::Condition(&idle));
  }
  bool Admit(const WriteStamp& stamp, uint64_t, uint64_t bytes) override {
    absl::MutexLock lock(&mutex_);
    if (!open_.contains(stamp.lease)) {
      refused_bytes_ += bytes;
      return false;
    }
    ++in_progress_;
    return true;
  }
  void Written(const WriteStamp& stamp, uint64_t, uint64_t bytes) override {
    absl::MutexLock lock(&mutex_);
    --in_progress_;
    written_bytes_[stamp.lease] += bytes;
  }
  uint64_t refused_bytes() {
    absl::MutexLock lock(&mutex_);
    return refused_bytes_;
  }
  uint64_t written_bytes(LeaseId lease) {
    absl::MutexLock lock(&mutex_);
    return written_bytes_[lease];
  }
  int in_progress() {
    absl::MutexLock lock(&mutex_);
    return in_progress_;
  }

 private:
  absl::Mutex mutex_;
  std::set<LeaseId> open_;
  std::map<LeaseId, uint64_t> written_bytes_;
  uint64_t refused_bytes_ = 0;
  int in_progress_ = 0;
};

}  // namespace baton
