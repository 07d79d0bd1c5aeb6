#pragma once

// A transport whose flushes report only when the test lets them: a transfer that is stuck between put and flush.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/transport/kv_transport.h"

namespace baton {

class FlushValve {
 public:
  using Done = std::function<void(const absl::Status&)>;

  void Hold() {
    absl::MutexLock lock(&mutex_);
    holding_ = true;
  }
  // Reports what is held, and later flushes at once.
  void Release() { Open(absl::OkStatus()); }
  void Fail(const absl::Status& status) { Open(status); }
  // Waits until `count` flushes were done underneath and are held.
  bool WaitForHeld(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return held_.size() >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(60));
  }

  void OnFlushed(const void* session, const absl::Status& status, Done done) {
    {
      absl::MutexLock lock(&mutex_);
      if (holding_) {
        held_.push_back({session, status, std::move(done)});
        return;
      }
    }
    done(status);
  }
  // What a closed session still held is cancelled.
  void OnClosed(const void* session) {
    std::vector<Held> cancelled;
    {
      absl::MutexLock lock(&mutex_);
      std::vector<Held> kept;
      for (Held& held : held_) (held.session == session ? cancelled : kept).push_back(std::move(held));
      held_ = std::move(kept);
    }
    for (Held& held : cancelled) held.done(Cancelled("the session was closed"));
  }

 private:
  struct Held {
    const void* session;
    absl::Status status;
    Done done;
  };
  void Open(const absl::Status& status) {
    std::vector<Held> held;
    {
      absl::MutexLock lock(&mutex_);
      holding_ = false;
      held.swap(held_);
    }
    for (Held& one : held) one.done(status.ok() ? one.status : status);
  }

  absl::Mutex mutex_;
  bool holding_ = false;
  std::vector<Held> held_;
};

class HeldSession final : public KvSession {
 public:
  HeldSession(std::unique_ptr<KvSession> inner, FlushValve* valve) : inner_(std::move(inner)), valve_(valve) {}
  ~HeldSession() override {
    inner_.reset();
    valve_->OnClosed(this);
  }
  absl::Status Put(const WriteStamp& stamp, std::span<const PutRun> runs) override { return inner_->Put(stamp, runs); }
  void Flush(std::function<void(const absl::Status&)> done) override {
    inner_->Flush([this, valve = valve_, done = std::move(done)](const absl::Status& status) {
      valve->OnFlushed(this, status, done);
    });
  }
  std::string_view lane() const override { return inner_->lane(); }

 private:
  std::unique_ptr<KvSession> inner_;
  FlushValve* const valve_;
};

class HeldTransport final : public KvTransport {
 public:
  explicit HeldTransport(std::unique_ptr<KvTransport> inner) : inner_(std::move(inner)) {}
  FlushValve& valve() { return valve_; }

  std::string_view name() const override { return inner_->name(); }
  TransportCapabilities capabilities() const override { return inner_->capabilities(); }
  absl::StatusOr<std::span<std::byte>> AllocatePool(uint64_t bytes) override { return inner_->AllocatePool(bytes); }
  absl::StatusOr<std::string> Describe() const override { return inner_->Describe(); }
  absl::Status UsePool(PoolMemory* pool) override { return inner_->UsePool(pool); }
  absl::StatusOr<std::unique_ptr<KvSession>> Connect(const std::string& descriptor, const PutSource& source) override {
    BATON_ASSIGN_OR_RETURN(auto inner, inner_->Connect(descriptor, source));
    return std::make_unique<HeldSession>(std::move(inner), &valve_);
  }
  void SetWriteGate(WriteGate* gate) override { inner_->SetWriteGate(gate); }

 private:
  FlushValve valve_;
  std::unique_ptr<KvTransport> inner_;
};

}  // namespace baton
