#pragma once

// UCX's status codes as absl::Status, and the two process-wide habits of libucs that a server cannot have.

#include <ucp/api/ucp.h>

#include <string_view>

#include "absl/status/status.h"

namespace baton {

// "UCS_ERR_... text" under the nearest canonical code; OK for UCS_OK. Whatever says that the peer is not there is
// UNAVAILABLE.
absl::Status UcxStatus(ucs_status_t status, std::string_view what);

// libucs installs handlers of SEGV, BUS, ILL and FPE before main (they would take the place of core dumps and
// sanitizers) and logs to stdout. Gives the signals back and sends warnings and errors to stderr as lines of JSON
// whose program is "ucx". Once a process.
void TameUcx();

}  // namespace baton
