#include "common/telemetry/metrics.h"

#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status.h"

namespace baton {

const std::vector<double>& FirstTokenBuckets() {
  static const std::vector<double> bounds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                             1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80,  160,  640, 2560};
  return bounds;
}

const std::vector<double>& TokenGapBuckets() {
  static const std::vector<double> bounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
                                             0.4,   0.5,    0.75,  1.0,  2.5,   5.0,  7.5,   10,  20,   40,  80};
  return bounds;
}

const std::vector<double>& RequestBuckets() {
  static const std::vector<double> bounds = {0.01,  0.02,  0.04,  0.08,  0.16, 0.32, 0.64, 1.28, 2.56, 5.12,
                                             10.24, 20.48, 40.96, 81.92, 160,  320,  640,  1280, 2560};
  return bounds;
}

const std::vector<double>& TransferBuckets() {
  static const std::vector<double> bounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                             0.05,   0.1,     0.25,   0.5,   1.0,    2.5,   5.0,  10};
  return bounds;
}

const std::vector<double>& StageBuckets() {
  static const std::vector<double> bounds = {0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                             1.0,    2.5,    5.0,   10,     20,    40,   80,    160,  640, 2560};
  return bounds;
}

const std::vector<double>& BatchBuckets() {
  static const std::vector<double> bounds = [] {
    std::vector<double> out;
    for (double bound = 1; bound <= 65536; bound *= 2) out.push_back(bound);
    return out;
  }();
  return bounds;
}

void Advance(prometheus::Counter& counter, uint64_t now, uint64_t before) {
  counter.Increment(static_cast<double>(now - before));
}

struct Metrics::Impl final : prometheus::Collectable {
  std::vector<prometheus::MetricFamily> Collect() const override {
    absl::MutexLock lock(&mutex);
    for (const auto& collect : collectors) collect();
    return registry.Collect();
  }

  MetricLabels constant;
  prometheus::Registry registry{prometheus::Registry::InsertBehavior::Merge};
  mutable absl::Mutex mutex;
  std::vector<std::function<void()>> collectors ABSL_GUARDED_BY(mutex);
};

Metrics::Metrics(MetricLabels constant) : impl_(std::make_shared<Impl>()) { impl_->constant = std::move(constant); }

Metrics::~Metrics() = default;

prometheus::Counter& Metrics::Counter(const std::string& name, const std::string& help, const MetricLabels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Labels(impl_->constant).Register(impl_->registry).Add(labels);
}

prometheus::Gauge& Metrics::Gauge(const std::string& name, const std::string& help, const MetricLabels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Labels(impl_->constant).Register(impl_->registry).Add(labels);
}

prometheus::Histogram& Metrics::Histogram(const std::string& name, const std::string& help,
                                          const std::vector<double>& buckets, const MetricLabels& labels) {
  return prometheus::BuildHistogram()
      .Name(name)
      .Help(help)
      .Labels(impl_->constant)
      .Register(impl_->registry)
      .Add(labels, buckets);
}

void Metrics::OnScrape(std::function<void()> collect) {
  absl::MutexLock lock(&impl_->mutex);
  impl_->collectors.push_back(std::move(collect));
}

absl::StatusOr<uint16_t> Metrics::Serve(const std::string& host, uint16_t port) {
  try {
    // A connection that asks nothing holds a thread until its time is over: scrapes find another.
    exposer_ = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", host + ":" + std::to_string(port), "num_threads", "8", "request_timeout_ms", "2000"});
  } catch (const std::exception& error) {
    return Unavailable("metrics cannot listen on %s:%d: %s", host, port, error.what());
  }
  exposer_->RegisterCollectable(impl_);
  return static_cast<uint16_t>(exposer_->GetListeningPorts().front());
}

void Metrics::StopServing() { exposer_.reset(); }

std::string Metrics::Render() const { return prometheus::TextSerializer().Serialize(impl_->Collect()); }

}  // namespace baton
