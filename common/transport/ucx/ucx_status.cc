#include "common/transport/ucx/ucx_status.h"

#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/telemetry/log.h"

namespace baton {
namespace {

absl::StatusCode CodeOf(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return absl::StatusCode::kResourceExhausted;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
      return absl::StatusCode::kInvalidArgument;
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
      return absl::StatusCode::kFailedPrecondition;
    case UCS_ERR_CANCELED:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

// As lines of JSON like the programs' own, so that a log has one format.
ucs_log_func_rc_t LogAsJson(const char*, unsigned, const char*, ucs_log_level_t level,
                            const ucs_log_component_config_t*, const char* format, va_list arguments) {
  if (level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;  // shown only when UCX_LOG_LEVEL asks for it
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, arguments);
  // We set one option under each of the names that versions of UCX give it; the others are unknown by design.
  const std::string_view message = text;
  if (message.starts_with("invalid configuration") && message.find("ERROR_HANDLING") != message.npos) {
    return UCS_LOG_FUNC_RC_STOP;
  }
  Logger("ucx", LogLevel::kWarning)
      .Write(level == UCS_LOG_LEVEL_WARN ? LogLevel::kWarning : LogLevel::kError, message, {});
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

absl::Status UcxStatus(ucs_status_t status, std::string_view what) {
  if (status == UCS_OK) return absl::OkStatus();
  return MakeStatus(CodeOf(status), std::string(what) + ": " + ucs_status_string(status) + " (UCX status " +
                                        std::to_string(static_cast<int>(status)) + ")");
}

void TameUcx() {
  static std::once_flag once;
  std::call_once(once, [] {
    ucs_log_push_handler(LogAsJson);  // first: it would print to stdout
    for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
      struct sigaction current {};
      // Not installed where UCX_HANDLE_ERRORS=none; taking away what is not there is a warning.
      if (sigaction(number, nullptr, &current) == 0 && current.sa_handler != SIG_DFL) ucs_debug_disable_signal(number);
    }
  });
}

}  // namespace baton
