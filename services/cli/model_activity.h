#pragma once

// What `baton top` shows of each model's requests: the numbers of the router's metrics, over the time between two
// looks.

#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "services/cli/worker_table.h"

namespace baton::cli {

// What a histogram gained between two looks.
struct HistogramChange {
  // Without `before` all of it; also when the router has restarted in between.
  HistogramChange(const v1::Histogram& now, const v1::Histogram* before);

  uint64_t count = 0;
  // As Prometheus' histogram_quantile: linear within the bucket; the largest bound when it lies beyond all. nullopt
  // without observations.
  std::optional<double> Quantile(double quantile) const;

 private:
  std::vector<double> upper_bounds_;
  std::vector<uint64_t> counts_;
};

// `since`: the look that the numbers go back to; without it they go back to the router's start.
std::vector<std::string> ModelLines(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& since);
nlohmann::ordered_json ModelsJson(const WorkerSnapshot& now, const std::optional<WorkerSnapshot>& since);

}  // namespace baton::cli
