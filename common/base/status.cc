#include "common/base/status.h"

#include <cstdio>
#include <cstdlib>

namespace baton {

absl::Status MakeStatus(absl::StatusCode code, std::string_view message) {
  return absl::Status(code, absl::string_view(message.data(), message.size()));
}

std::string StatusMessage(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

absl::Status WithContext(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return MakeStatus(status.code(), std::string(context) + ": " + StatusMessage(status));
}

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace baton
