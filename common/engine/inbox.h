#pragma once

// The bounded queue between everybody and the step thread. Knows which requests are live, so that a control for an
// unknown one costs nothing and those for a live one are merged: its memory is bounded by the live requests.
// Thread-safe; no call blocks except Take and AwaitAllEnded.

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/engine/request.h"

namespace baton {

class Inbox {
 public:
  explicit Inbox(uint32_t capacity) : capacity_(capacity) {}

  // RESOURCE_EXHAUSTED when `capacity` requests wait for the step thread, UNAVAILABLE when closed, INVALID_ARGUMENT
  // when the id is live.
  absl::Status Submit(EngineRequest request, TimePoint now);
  void Cancel(uint64_t id);
  void CancelChoice(uint64_t id, uint32_t choice);  // choice < kMaxChoices
  void Release(uint64_t id);
  // Ends everything that is live with `status`.
  void CancelAll(const absl::Status& status);
  void Close();  // no further Submit
  void Stop();   // Close, and Take returns at once with stop

  struct Arrival {
    EngineRequest request;
    TimePoint submitted;
  };
  struct Control {
    uint64_t id = 0;
    absl::Status end;                // not OK: end the request with it
    uint64_t cancelled_choices = 0;  // bit per choice index
    bool release = false;
  };
  struct Batch {
    std::vector<Arrival> arrivals;
    std::vector<Control> controls;  // to apply after the arrivals
    bool stop = false;
  };
  // Everything new; waits up to `timeout` for it.
  Batch Take(absl::Duration timeout);

  // From the step thread: OnEnd was called; `held`: blocks are kept until Release.
  void Ended(uint64_t id, bool held);
  // ... and they were given back.
  void Released(uint64_t id);

  // False when some request has not ended within `timeout`.
  bool AwaitAllEnded(absl::Duration timeout);
  uint32_t unended() const;

  struct Queued {
    uint32_t requests = 0;
    uint64_t prompt_tokens = 0;
  };
  // What Take has not returned yet.
  Queued queued() const;

 private:
  struct Live {
    bool ended = false;
    bool dirty = false;  // listed in dirty_
    Control control;
  };
  Live* Find(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkDirty(uint64_t id, Live* live) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasNews() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || !arrivals_.empty() || !dirty_.empty(); }
  bool AllEnded() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return unended_ == 0; }

  const uint32_t capacity_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, Live> live_ ABSL_GUARDED_BY(mutex_);
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> dirty_ ABSL_GUARDED_BY(mutex_);
  uint64_t queued_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t unended_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton
