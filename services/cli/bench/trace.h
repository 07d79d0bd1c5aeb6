#pragma once

// What happened to one request of a bench, as its caller saw it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "services/cli/bench/statistics.h"

namespace baton::cli {

// Times are seconds of one clock that starts with the run.
struct RequestTrace {
  double arrival = 0;  // when it was due
  std::vector<double> token_times;
  std::vector<TokenId> ids;
  std::string text;                                   // of a deployment
  std::vector<std::pair<double, size_t>> text_times;  // ... and its characters so far
  double end = 0;
  uint32_t prompt_tokens = 0, cached_tokens = 0;
  double transfer_seconds = 0, transfer_tail_seconds = 0;  // of a handoff, as the router reports it
  uint64_t transfer_bytes = 0;
  std::string transport;
  absl::Status status;

  bool ok() const { return status.ok() && !token_times.empty(); }
  double time_to_first_token() const { return token_times.front() - arrival; }
};

struct TraceSummary {
  size_t failed = 0;
  double seconds = 0;   // first arrival to last end
  uint64_t tokens = 0;  // generated
  double tokens_per_second = 0;
  std::vector<double> first_token, gaps, latency;  // seconds
};
TraceSummary Summarize(std::span<const RequestTrace> traces);

// The first error, if any request has failed.
absl::Status FirstError(std::span<const RequestTrace> traces);

// Share of requests whose first token came within `ttft` seconds and whose 99th percentile of gaps is within `itl`.
double GoodShare(std::span<const RequestTrace> traces, double ttft, double itl);

bool SameTokens(std::span<const RequestTrace> a, std::span<const RequestTrace> b);

}  // namespace baton::cli
