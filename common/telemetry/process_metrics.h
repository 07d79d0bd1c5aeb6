#pragma once

// What every program reports of itself: baton_build_info, and the process_* metrics under the names that Prometheus'
// own client libraries use.

#include <string>

#include "common/telemetry/metrics.h"

namespace baton {

// Filled at every scrape from /proc/self. Once, before Serve.
void AddProcessMetrics(Metrics& metrics, const std::string& version);

}  // namespace baton
