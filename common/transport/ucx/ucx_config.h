#pragma once

// How UCX is set up: by its configuration interface, never through this process's environment.

#include <ucp/api/ucp.h>

#include <string>

#include "absl/status/statusor.h"
#include "common/transport/catalogue.h"

namespace baton {

// A context with RMA, active messages and wake-up for these options. The caller cleans it up.
absl::StatusOr<ucp_context_h> MakeUcxContext(const TransportOptions& options);

// The network interface that has `host`'s address, by getifaddrs; NOT_FOUND when none has.
absl::StatusOr<std::string> InterfaceOf(const std::string& host);

// True when puts of a context with these options may be one-sided: it has a lane beside tcp and self.
bool MayPutOneSided(const TransportOptions& options);

}  // namespace baton
