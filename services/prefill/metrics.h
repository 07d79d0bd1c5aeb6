#pragma once

// Metrics of a prefill worker beside those of every worker.

#include <string>

#include "common/handoff/sender.h"
#include "services/worker/metrics.h"

namespace baton {

class PrefillMetrics {
 public:
  // Creates every series at once. `transport` is the label value of transfers.
  PrefillMetrics(Metrics& metrics, WorkerMetrics& worker, const std::string& transport);

  WorkerMetrics& worker() { return worker_; }
  void OnHandoff(const HandoffResult& result);

  // Since the start: handoffs that ended so, those that failed, bytes put.
  uint64_t handoffs(HandoffOutcome outcome) const;
  uint64_t failures() const { return static_cast<uint64_t>(failures_.Value()); }
  uint64_t bytes() const { return static_cast<uint64_t>(bytes_.Value()); }

 private:
  WorkerMetrics& worker_;
  prometheus::Histogram &transfer_seconds_, &tail_seconds_;
  prometheus::Counter &bytes_, &blocks_, &failures_;
  prometheus::Counter* outcomes_[5];  // by HandoffOutcome
};

const char* HandoffOutcomeName(HandoffOutcome outcome);

}  // namespace baton
