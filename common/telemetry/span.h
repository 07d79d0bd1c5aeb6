#pragma once

// Spans as plain values, and where they go. What records them knows nothing of how they leave the process.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/telemetry/trace_context.h"

namespace baton {

using SpanValue = std::variant<std::string, bool, int64_t, double>;

struct Span {
  TraceContext context;  // its own span id
  SpanId parent{};       // zero: a root
  std::string name;
  enum class Kind : uint8_t { kInternal, kServer } kind = Kind::kInternal;
  TimePoint start, end;
  std::vector<std::pair<std::string, SpanValue>> attributes;
  std::string error;  // empty: it ended well
};

// A span of the trace below `parent`.
inline Span ChildSpan(const TraceContext& parent, std::string name, TimePoint start, TimePoint end) {
  Span span;
  span.context = parent.Child();
  span.parent = parent.span_id;
  span.name = std::move(name);
  span.start = start;
  span.end = std::max(start, end);
  return span;
}

// Thread-safe; never blocks.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  // Takes spans of sampled traces; what does not fit is dropped and counted.
  virtual void Add(Span span) = 0;
};

}  // namespace baton
