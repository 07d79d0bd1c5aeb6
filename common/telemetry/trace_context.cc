#include "common/telemetry/trace_context.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "common/base/hash.h"

namespace baton {
namespace {

constexpr size_t kTraceparentBytes = 55;
constexpr size_t kMaxTracestateBytes = 512;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// False for what is not lower-case hexadecimal.
bool ParseHex(std::string_view text, std::span<uint8_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = HexDigit(text[2 * i]), low = HexDigit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

template <typename Id>
bool IsZero(const Id& id) {
  return std::all_of(id.begin(), id.end(), [](uint8_t byte) { return byte == 0; });
}

template <typename Id>
void Randomise(Id& id) {
  do {
    for (size_t i = 0; i < id.size(); i += sizeof(uint64_t)) {
      const uint64_t bits = RandomU64();
      std::memcpy(id.data() + i, &bits, sizeof(bits));
    }
  } while (IsZero(id));
}

}  // namespace

std::string Hex(const uint8_t* bytes, size_t size) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

TraceContext TraceContext::MakeRoot() {
  TraceContext context;
  Randomise(context.trace_id);
  return context;
}

TraceContext TraceContext::Child() const {
  TraceContext child = *this;
  Randomise(child.span_id);
  return child;
}

std::string TraceContext::traceparent() const {
  return "00-" + trace_id_hex() + "-" + Hex(span_id.data(), span_id.size()) + (sampled ? "-01" : "-00");
}

std::string TraceContext::trace_id_hex() const { return Hex(trace_id.data(), trace_id.size()); }

std::optional<TraceContext> ParseTraceContext(std::string_view traceparent, std::string_view tracestate) {
  if (traceparent.size() < kTraceparentBytes) return std::nullopt;
  uint8_t version = 0, flags = 0;
  if (!ParseHex(traceparent.substr(0, 2), {&version, 1}) || version == 0xff) return std::nullopt;
  const bool longer = traceparent.size() > kTraceparentBytes;
  if (longer && (version == 0 || traceparent[kTraceparentBytes] != '-')) return std::nullopt;
  if (traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-') return std::nullopt;
  TraceContext context;
  if (!ParseHex(traceparent.substr(3, 32), context.trace_id) || IsZero(context.trace_id)) return std::nullopt;
  if (!ParseHex(traceparent.substr(36, 16), context.span_id) || IsZero(context.span_id)) return std::nullopt;
  if (!ParseHex(traceparent.substr(53, 2), {&flags, 1})) return std::nullopt;
  context.sampled = (flags & 1) != 0;
  const bool printable =
      std::all_of(tracestate.begin(), tracestate.end(), [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; });
  if (tracestate.size() <= kMaxTracestateBytes && printable) context.state = tracestate;
  return context;
}

bool SampledByRatio(const TraceId& trace_id, double ratio) {
  if (!(ratio > 0)) return false;
  if (ratio >= 1) return true;
  // The last seven bytes are the random ones (W3C Trace Context level 2); 56 bits fit a double exactly.
  uint64_t value = 0;
  for (size_t i = 9; i < trace_id.size(); ++i) value = value << 8 | trace_id[i];
  return std::ldexp(static_cast<double>(value), -56) < ratio;
}

}  // namespace baton
