#include "common/config/host_port.h"

#include <charconv>

#include "common/base/status.h"

namespace baton {

absl::StatusOr<HostPort> ParseHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return InvalidArgument("'%s' must be host:port", text);
  HostPort out{text.substr(0, colon), 0};
  if (out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  } else if (out.host.find(':') != std::string::npos) {
    return InvalidArgument("'%s' must be host:port, with brackets around an IPv6 address", text);
  }
  if (out.host.empty()) return InvalidArgument("'%s' names no host", text);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, out.port);
  if (error != std::errc() || stop != end || out.port == 0) {
    return InvalidArgument("'%s' has the port '%s', must be 1 to 65535", text, text.substr(colon + 1));
  }
  return out;
}

}  // namespace baton
