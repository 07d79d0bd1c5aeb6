#pragma once

// The spans of one call on a worker, all below the span of the prompt that the router named. Not thread-safe: the
// call's lock guards it. Costs nothing for requests that are not sampled.

#include <string>
#include <utility>
#include <vector>

#include "baton/internal/v1/generation.pb.h"
#include "common/telemetry/span.h"

namespace baton {

class CallTrace {
 public:
  using Attributes = std::vector<std::pair<std::string, SpanValue>>;

  CallTrace() = default;
  // `spans` may be null: nothing is recorded.
  CallTrace(SpanSink* spans, const internal::v1::Work& work, std::string name, TimePoint arrived);

  // For logs; empty when the work names no trace.
  const std::string& trace_id() const { return trace_id_; }
  bool recorded() const { return spans_ != nullptr; }

  // The scheduler let the prompt through: ends the wait that began at `queued`.
  void OnStarted(const char* queue_name, TimePoint queued, TimePoint now, uint32_t cached_tokens);
  // A chunk of the prompt is computed.
  void OnProgress(TimePoint now, uint32_t tokens_done);
  void Add(std::string name, TimePoint start, TimePoint end, Attributes attributes = {});
  // Below `parent` instead of the call's own span.
  TraceContext AddGroup(std::string name, TimePoint start, TimePoint end, Attributes attributes);
  void AddTo(const TraceContext& parent, std::string name, TimePoint start, TimePoint end, Attributes attributes);
  // The call's own span. Once, last. `error`: empty when it ended well.
  void End(TimePoint now, const std::string& error, Attributes attributes = {});

  TimePoint started() const { return started_; }

 private:
  SpanSink* spans_ = nullptr;
  std::string trace_id_;
  Span call_;
  TimePoint started_, last_chunk_;
  uint32_t tokens_done_ = 0;
};

}  // namespace baton
