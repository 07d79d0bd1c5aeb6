#pragma once

// What `baton top` shows of one look at the workers, and of the difference to the look before.

#include <optional>
#include <string>
#include <vector>

#include "baton/v1/admin.pb.h"

namespace baton::cli {

struct WorkerSnapshot {
  double seconds = 0;  // of one clock
  v1::ListWorkersResponse workers;
};

// What a worker did a second between two looks; unset for one that was not there before or has restarted since.
struct WorkerRates {
  std::optional<double> prompt_tokens, generated_tokens, handoffs, handoffs_failed, kv_bytes;
  // Shares of what its machine could do at best; unset as well when that was not measured.
  std::optional<double> compute, memory;
};
WorkerRates RatesOf(const v1::Worker& worker, const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& before);

// The router's own numbers, its models' (which go back to `since`, further than rates), its workers' and a legend.
std::vector<std::string> TopLines(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& before,
                                  const std::optional<WorkerSnapshot>& since);
// One line.
std::string TopJson(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& before,
                    const std::optional<WorkerSnapshot>& since);

}  // namespace baton::cli
