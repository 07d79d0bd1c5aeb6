#pragma once

// Prometheus metrics of one process: the registry, the HTTP endpoint, and the bucket bounds that all programs share.
// Each component keeps its own struct of metrics beside the code that moves them.

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace prometheus {
class Exposer;
}

namespace baton {

using MetricLabels = std::map<std::string, std::string>;

// OpenTelemetry's GenAI bounds with longer tails, seconds.
const std::vector<double>& FirstTokenBuckets();  // TTFT, queue, prefill
const std::vector<double>& TokenGapBuckets();    // ITL, TPOT, step time
const std::vector<double>& RequestBuckets();     // end to end
const std::vector<double>& TransferBuckets();    // KV transfer
const std::vector<double>& StageBuckets();       // parts of a request, from what a tokenizer takes to a long decode
const std::vector<double>& BatchBuckets();       // powers of two, 1 to 65,536

// Moves a counter by what a running total of elsewhere grew since it was last looked at.
void Advance(prometheus::Counter& counter, uint64_t now, uint64_t before);

class Metrics {
 public:
  // `constant` labels stand on every series (model, role).
  explicit Metrics(MetricLabels constant);
  ~Metrics();

  // Metrics of one name must agree in type and help; the same labels give the same metric.
  prometheus::Counter& Counter(const std::string& name, const std::string& help, const MetricLabels& labels = {});
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help, const MetricLabels& labels = {});
  prometheus::Histogram& Histogram(const std::string& name, const std::string& help, const std::vector<double>& buckets,
                                   const MetricLabels& labels = {});

  // Calls `collect` before every scrape, to fill gauges from live objects. It must stay callable while the endpoint
  // serves.
  void OnScrape(std::function<void()> collect);

  // Serves /metrics on host:port (port 0: any); returns the port. UNAVAILABLE when the port is taken.
  absl::StatusOr<uint16_t> Serve(const std::string& host, uint16_t port);
  // Ends the endpoint; collectors are not called after it has returned.
  void StopServing();
  // The text that a scrape would return.
  std::string Render() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace baton
