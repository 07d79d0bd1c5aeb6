#pragma once

// What tests of the control connection watch: a handler that records, and waits on what it recorded.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/transport/control_connection.h"

namespace baton {

// For conditions that come in milliseconds; machines are slow, busy, or run a sanitizer.
inline constexpr absl::Duration kTestPatience = absl::Seconds(60);

// Values that threads append and a test waits for.
template <typename T>
class Recorder {
 public:
  void Add(T value) {
    absl::MutexLock lock(&mutex_);
    values_.push_back(std::move(value));
  }
  // False when `enough` did not become true in time.
  bool WaitFor(const std::function<bool(const std::vector<T>&)>& enough) {
    absl::MutexLock lock(&mutex_);
    const auto ready = [&] { return enough(values_); };
    return mutex_.AwaitWithTimeout(absl::Condition(&ready), kTestPatience);
  }
  bool WaitForValue(const T& value) {
    return WaitFor([&](const std::vector<T>& all) {
      for (const T& one : all) {
        if (one == value) return true;
      }
      return false;
    });
  }
  bool WaitForCount(size_t count) {
    return WaitFor([&](const std::vector<T>& all) { return all.size() >= count; });
  }
  void Clear() {
    absl::MutexLock lock(&mutex_);
    values_.clear();
  }
  std::vector<T> values() {
    absl::MutexLock lock(&mutex_);
    return values_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<T> values_;
};

using RecordedEvent = std::pair<Incarnation, PeerEvent>;

// Attach: attached; commit: committed, unless `hold_commits`; fence: discarded, with the fence's reason.
class RecordingHandler final : public ControlHandler {
 public:
  absl::Status OnHello(const ControlHello& hello) override {
    hellos.Add(hello.name);
    return hello_status;
  }
  void OnPeerEvent(Incarnation peer, PeerEvent event) override { events.Add({peer, event}); }
  void OnAttach(Incarnation, const AttachMessage& message, Answer answer) override {
    answer({message.key.lease, LeaseAnswer::kAttached, ""});
  }
  void OnCommit(Incarnation, CommitMessage message, Answer answer) override {
    if (hold_commits) {
      held.Add({message.key.lease, std::move(answer)});
    } else {
      answer({message.key.lease, LeaseAnswer::kCommitted, ""});
    }
    commits.Add(std::move(message));
  }
  void OnFence(Incarnation, const FenceMessage& message, Answer answer) override {
    answer({message.key.lease, LeaseAnswer::kDiscarded, message.reason});
  }

  absl::Status hello_status;
  bool hold_commits = false;
  Recorder<std::string> hellos;
  Recorder<RecordedEvent> events;
  Recorder<CommitMessage> commits;
  Recorder<std::pair<LeaseId, Answer>> held;
};

// Silence shows early, so that tests need not wait long; but a busy machine that leaves a thread alone for a second is
// no silence.
inline ControlOptions QuickOptions() {
  ControlOptions options;
  options.heartbeat = std::chrono::milliseconds(50);
  options.suspect_after = std::chrono::milliseconds(2500);
  return options;
}

inline ControlHello TestHello(uint64_t incarnation, const std::string& name) {
  ControlHello hello;
  hello.incarnation = Incarnation{incarnation};
  hello.layout_hash = LayoutHash{11};
  hello.numerics_hash = NumericsHash{22};
  hello.secret = 33;
  hello.name = name;
  hello.host_id = LocalHostId();
  return hello;
}

}  // namespace baton
