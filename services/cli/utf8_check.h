#pragma once

// Text that is to be sent.

#include <google/protobuf/message.h>

#include "absl/status/status.h"

namespace baton::cli {

// INVALID_ARGUMENT that names the first string of `message` that is not UTF-8 and the offset of the byte that is wrong.
// A router cannot read such a message, and what gRPC then says of it tells neither.
absl::Status CheckUtf8(const google::protobuf::Message& message);

}  // namespace baton::cli
