#pragma once

// Errors are absl::Status whose message carries the numbers that explain them.
//   return InvalidArgument("prompt has %d tokens, the model takes %d", prompt, limit);
// Formats are absl::StrFormat's; std::string_view arguments are accepted.

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

namespace baton {

// absl::Status from std types; Debian's Abseil has its own string_view without a conversion from std's.
absl::Status MakeStatus(absl::StatusCode code, std::string_view message);

// The status' message as a std type.
std::string StatusMessage(const absl::Status& status);

// `status` with "context: " put before its message; OK stays OK.
absl::Status WithContext(const absl::Status& status, std::string_view context);

#define BATON_DEFINE_STATUS_MAKER(Name, code)                                       \
  template <typename... Args>                                                       \
  absl::Status Name(const absl::FormatSpec<Args...>& format, const Args&... args) { \
    return MakeStatus(code, absl::StrFormat(format, args...));                      \
  }
BATON_DEFINE_STATUS_MAKER(InvalidArgument, absl::StatusCode::kInvalidArgument)
BATON_DEFINE_STATUS_MAKER(NotFound, absl::StatusCode::kNotFound)
BATON_DEFINE_STATUS_MAKER(FailedPrecondition, absl::StatusCode::kFailedPrecondition)
BATON_DEFINE_STATUS_MAKER(ResourceExhausted, absl::StatusCode::kResourceExhausted)
BATON_DEFINE_STATUS_MAKER(Unavailable, absl::StatusCode::kUnavailable)
BATON_DEFINE_STATUS_MAKER(DataLoss, absl::StatusCode::kDataLoss)
BATON_DEFINE_STATUS_MAKER(Aborted, absl::StatusCode::kAborted)
BATON_DEFINE_STATUS_MAKER(Cancelled, absl::StatusCode::kCancelled)
BATON_DEFINE_STATUS_MAKER(DeadlineExceeded, absl::StatusCode::kDeadlineExceeded)
BATON_DEFINE_STATUS_MAKER(Internal, absl::StatusCode::kInternal)
BATON_DEFINE_STATUS_MAKER(Unimplemented, absl::StatusCode::kUnimplemented)
BATON_DEFINE_STATUS_MAKER(OutOfRange, absl::StatusCode::kOutOfRange)
#undef BATON_DEFINE_STATUS_MAKER

// For what our own code guarantees; never for input. Prints file, line and condition, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
#define BATON_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::baton::CheckFailed(__FILE__, __LINE__, #condition))

#define BATON_CONCAT_INNER(a, b) a##b
#define BATON_CONCAT(a, b) BATON_CONCAT_INNER(a, b)

#define BATON_RETURN_IF_ERROR(expression)                                                  \
  do {                                                                                     \
    if (absl::Status baton_status = (expression); !baton_status.ok()) return baton_status; \
  } while (false)

// BATON_ASSIGN_OR_RETURN(auto value, Compute());
#define BATON_ASSIGN_OR_RETURN(declaration, expression) \
  BATON_ASSIGN_OR_RETURN_IMPL(BATON_CONCAT(baton_statusor_, __LINE__), declaration, expression)
#define BATON_ASSIGN_OR_RETURN_IMPL(statusor, declaration, expression) \
  auto statusor = (expression);                                        \
  if (!statusor.ok()) return statusor.status();                        \
  declaration = *std::move(statusor)

}  // namespace baton
