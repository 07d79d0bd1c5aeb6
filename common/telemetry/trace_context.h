#pragma once

// W3C Trace Context (level 1): who a span belongs to, as it crosses process borders in `traceparent` and `tracestate`.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct TraceContext {
  TraceId trace_id{};
  SpanId span_id{};  // of the span that is the parent of whatever comes next
  bool sampled = false;
  std::string state;  // tracestate, passed on as it came

  // A trace of its own, not sampled.
  static TraceContext MakeRoot();
  // The same trace with a new span id.
  TraceContext Child() const;
  std::string traceparent() const;
  std::string trace_id_hex() const;
};

// nullopt for anything that the recommendation calls invalid: lengths, upper case, version ff, zero ids. Versions above
// 00 may carry more fields, which are ignored. `tracestate` is dropped when longer than 512 bytes or not printable.
std::optional<TraceContext> ParseTraceContext(std::string_view traceparent, std::string_view tracestate);

// True for this share of all trace ids, the same ones in every process. A ratio outside [0, 1] is cut.
bool SampledByRatio(const TraceId& trace_id, double ratio);

std::string Hex(const uint8_t* bytes, size_t size);

}  // namespace baton
