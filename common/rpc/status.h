#pragma once

// absl::Status at the edge of gRPC, with google.rpc details in the trailer.

#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace baton {

struct FieldViolation {
  std::string field;        // "sampling.top_p"
  std::string description;  // what is wrong, with the limit
};

// "resource_exhausted": how metrics and logs name a code. Both kinds have the same numbers, 0 to kStatusCodes - 1.
inline constexpr int kStatusCodes = 17;
const char* CodeName(grpc::StatusCode code);
const char* CodeName(absl::StatusCode code);

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// INVALID_ARGUMENT with BadRequest; the message lists the violations too.
grpc::Status InvalidFields(const std::vector<FieldViolation>& violations);
// RESOURCE_EXHAUSTED with RetryInfo.
grpc::Status ExhaustedRetry(const std::string& message, Duration retry_after);

}  // namespace baton
