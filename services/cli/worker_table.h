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

// Tokens a second between two looks; unset for a worker that was not there before or has restarted since.
struct WorkerRates {
  std::optional<double> prompt_tokens, generated_tokens;
};
WorkerRates RatesOf(const v1::Worker& worker, const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& before);

// Lines of the table with its legend.
std::vector<std::string> WorkerLines(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& before);
// One line.
std::string WorkersJson(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& before);

}  // namespace baton::cli
