#pragma once

// Metrics of a decode worker beside those of every worker.

#include "common/handoff/receiver.h"
#include "services/worker/metrics.h"

namespace baton {

class DecodeMetrics {
 public:
  // Creates every series at once.
  DecodeMetrics(Metrics& metrics, WorkerMetrics& worker);

  WorkerMetrics& worker() { return worker_; }
  // Fills from the receiver at every scrape from now on; it must outlive the endpoint's scrapes.
  void Attach(std::shared_ptr<HandoffReceiver> receiver, double max_quarantined_blocks);

 private:
  void Collect();

  Metrics& metrics_;
  WorkerMetrics& worker_;
  std::shared_ptr<HandoffReceiver> receiver_;
  HandoffCounts last_;
  prometheus::Counter &committed_, &discarded_, &refused_, &expired_, &cancelled_, &fenced_, &writer_lost_;
  prometheus::Counter &mismatches_, &late_writes_;
  prometheus::Gauge &open_leases_, &leased_limit_, &quarantined_limit_;
};

}  // namespace baton
