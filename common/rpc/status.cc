#include "common/rpc/status.h"

#include <chrono>

#include "common/base/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace baton {
namespace {

grpc::Status WithDetail(grpc::StatusCode code, const std::string& message, const google::protobuf::Message& detail) {
  google::rpc::Status rich;
  rich.set_code(code);
  rich.set_message(message);
  rich.add_details()->PackFrom(detail);
  return grpc::Status(code, message, rich.SerializeAsString());
}

constexpr const char* kCodeNames[kStatusCodes] = {
    "ok",        "cancelled",      "unknown",           "invalid_argument",   "deadline_exceeded",
    "not_found", "already_exists", "permission_denied", "resource_exhausted", "failed_precondition",
    "aborted",   "out_of_range",   "unimplemented",     "internal",           "unavailable",
    "data_loss", "unauthenticated"};

const char* NameOf(int code) { return code >= 0 && code < kStatusCodes ? kCodeNames[code] : "unknown"; }

// A trailer travels in HTTP/2 headers, whose usual limit is 8 KiB, and gRPC wants it to be short.
std::string Shortened(std::string message) {
  constexpr size_t kLimit = 2048;
  if (message.size() > kLimit) message = message.substr(0, kLimit) + "...";
  return message;
}

}  // namespace

const char* CodeName(grpc::StatusCode code) { return NameOf(static_cast<int>(code)); }
const char* CodeName(absl::StatusCode code) { return NameOf(static_cast<int>(code)); }

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Shortened(StatusMessage(status)));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return MakeStatus(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::Status InvalidFields(const std::vector<FieldViolation>& violations) {
  google::rpc::BadRequest bad;
  std::string message;
  for (const FieldViolation& violation : violations) {
    if (!message.empty()) message += "; ";
    message += violation.field + ": " + violation.description;
    if (message.size() > 2048) break;  // the rest would not fit a trailer either
    auto* field = bad.add_field_violations();
    field->set_field(violation.field);
    field->set_description(violation.description);
  }
  return WithDetail(grpc::StatusCode::INVALID_ARGUMENT, Shortened(message), bad);
}

grpc::Status ExhaustedRetry(const std::string& message, Duration retry_after) {
  google::rpc::RetryInfo retry;
  const auto nanoseconds = retry_after.count();
  retry.mutable_retry_delay()->set_seconds(nanoseconds / 1'000'000'000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
  return WithDetail(grpc::StatusCode::RESOURCE_EXHAUSTED, Shortened(message), retry);
}

}  // namespace baton
