#include "services/cli/bench/trace.h"

#include <algorithm>

namespace baton::cli {
namespace {

std::vector<double> GapsOf(const RequestTrace& trace) {
  std::vector<double> gaps;
  for (size_t i = 1; i < trace.token_times.size(); ++i) gaps.push_back(trace.token_times[i] - trace.token_times[i - 1]);
  return gaps;
}

}  // namespace

TraceSummary Summarize(std::span<const RequestTrace> traces) {
  TraceSummary summary;
  double begin = 1e300, end = 0;
  for (const RequestTrace& trace : traces) {
    if (!trace.ok()) {
      ++summary.failed;
      continue;
    }
    begin = std::min(begin, trace.arrival);
    end = std::max(end, trace.end);
    summary.tokens += trace.token_times.size();
    summary.first_token.push_back(trace.time_to_first_token());
    summary.latency.push_back(trace.end - trace.arrival);
    const std::vector<double> gaps = GapsOf(trace);
    summary.gaps.insert(summary.gaps.end(), gaps.begin(), gaps.end());
  }
  summary.seconds = std::max(0.0, end - begin);
  if (summary.seconds > 0) summary.tokens_per_second = static_cast<double>(summary.tokens) / summary.seconds;
  return summary;
}

absl::Status FirstError(std::span<const RequestTrace> traces) {
  for (const RequestTrace& trace : traces) {
    if (!trace.status.ok()) return trace.status;
  }
  return absl::OkStatus();
}

double GoodShare(std::span<const RequestTrace> traces, double ttft, double itl) {
  const auto good = std::count_if(traces.begin(), traces.end(), [&](const RequestTrace& trace) {
    if (!trace.ok() || trace.time_to_first_token() > ttft) return false;
    const std::vector<double> gaps = GapsOf(trace);
    return gaps.empty() || Percentile(gaps, 99) <= itl;
  });
  return traces.empty() ? 0 : static_cast<double>(good) / static_cast<double>(traces.size());
}

bool SameTokens(std::span<const RequestTrace> a, std::span<const RequestTrace> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const RequestTrace& x, const RequestTrace& y) { return x.ids == y.ids; });
}

}  // namespace baton::cli
