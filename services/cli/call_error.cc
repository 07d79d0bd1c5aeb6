#include "services/cli/call_error.h"

#include <vector>

#include "absl/status/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "services/cli/format.h"

namespace baton::cli {
namespace {

std::vector<std::string> DetailTexts(const CallStatus& status) {
  std::vector<std::string> texts;
  google::rpc::Status rich;
  if (status.details.empty() || !rich.ParseFromString(status.details)) return texts;
  for (const google::protobuf::Any& detail : rich.details()) {
    google::rpc::BadRequest bad;
    google::rpc::RetryInfo retry;
    if (detail.Is<google::rpc::BadRequest>() && detail.UnpackTo(&bad)) {
      for (const auto& violation : bad.field_violations()) {
        const std::string text = violation.field() + ": " + violation.description();
        if (status.message.find(text) == std::string::npos) texts.push_back("[" + text + "]");
      }
    } else if (detail.Is<google::rpc::RetryInfo>() && detail.UnpackTo(&retry)) {
      const double seconds = static_cast<double>(retry.retry_delay().seconds()) + retry.retry_delay().nanos() * 1e-9;
      texts.push_back("(retry after " + FormatSeconds(seconds) + ")");
    }
  }
  return texts;
}

}  // namespace

std::string CallErrorText(const CallStatus& status) {
  std::string text(absl::StatusCodeToString(static_cast<absl::StatusCode>(status.code)));
  if (text.empty()) text = "code " + std::to_string(status.code);
  const std::string message = CallErrorMessage(status);
  if (!message.empty()) text += (status.message.empty() ? " " : ": ") + message;
  return OneLine(text);
}

std::string CallErrorMessage(const CallStatus& status) {
  std::string text = status.message;
  for (const std::string& detail : DetailTexts(status)) text += (text.empty() ? "" : " ") + detail;
  return OneLine(text);
}

}  // namespace baton::cli
