#pragma once

// How a call ended, without gRPC's headers, and the one line that tells it.

#include <string>

namespace baton::cli {

struct CallStatus {
  int code = 0;         // gRPC's number; 0 is OK
  std::string message;  // the server's
  std::string details;  // serialized google.rpc.Status of the trailer, or empty

  bool ok() const { return code == 0; }
  bool cancelled() const { return code == 1; }
};

// "RESOURCE_EXHAUSTED: the queue holds 64 requests (retry after 500.0 ms)". Field violations that the message does not
// name already follow in brackets; details that do not parse are left out. Always one line.
std::string CallErrorText(const CallStatus& status);
// The same without the code.
std::string CallErrorMessage(const CallStatus& status);

}  // namespace baton::cli
